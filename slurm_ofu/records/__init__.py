"""What do we say about this job?"""
