"""What MkDocs does besides: the theme's search works from a file without a script of another server."""

import re

SHIM = re.compile(r"https://[^\"']+/iframe-worker/shim")


def local(output, up):
    return SHIM.sub(up + "worker.js", output)


def on_post_page(output, page, config):
    return local(output, "../" * page.url.count("/"))


def on_post_template(output_content, template_name, config):
    return local(output_content, "/") if template_name.endswith(".html") else output_content
