"""Drawings as SVG, for bench/plot and docs/pictures/draw."""

COLOURS = ["#1b6ca8", "#c8553d", "#588157", "#8e6c8a", "#b08900", "#555555", "#2a9d8f"]


def svg(width, height, title, parts):
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12"><title>{escaped(title)}</title>'
            f'<rect width="100%" height="100%" fill="white"/>')
    return "\n".join([head, text(width / 2, 22, title, "middle", 14), *parts, "</svg>"]) + "\n"


def escaped(words):
    return words.replace("&", "&amp;").replace("<", "&lt;")


def text(x, y, words, anchor="start", size=12):
    """With a white edge, so that it can stand on a line."""
    return (f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" font-size="{size}" fill="#222" stroke="white" '
            f'stroke-width="3" paint-order="stroke">{escaped(words)}</text>')


def line(x1, y1, x2, y2, colour="#ddd", width=1):
    return f'<line x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}" stroke="{colour}" stroke-width="{width}"/>'
