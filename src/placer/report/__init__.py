"""Rendering only: text pictures and SVG of what the other rooms found out."""
