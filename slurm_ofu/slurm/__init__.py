"""Whose GPU is it, and what does accounting say?"""
