"""Carry it, lose nothing."""
