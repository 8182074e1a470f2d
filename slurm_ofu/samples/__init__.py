"""When do we look, and where do looks go?"""
