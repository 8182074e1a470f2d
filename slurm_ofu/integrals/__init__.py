"""How much was it in all?"""
