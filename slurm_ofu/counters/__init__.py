"""What does the GPU say now?"""
