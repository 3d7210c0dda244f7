#!/usr/bin/env python3
"""embed.py OUT.cpp PRESET.toml...: writes the presets as C++, for the build."""

import pathlib
import sys


def main(out, *files):
    presets = "".join(f'    {{"{f.stem}", R"preset({f.read_text(encoding="utf-8")})preset"}},\n'
                      for f in sorted(map(pathlib.Path, files)))
    pathlib.Path(out).write_text(
        '#include "gateway/config/presets.hpp"\n\n'
        'std::span<const canigo::gateway::preset> canigo::gateway::presets() noexcept {\n'
        f'  static constexpr preset all[] = {{\n{presets}  }};\n'
        '  return all;\n}\n', encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
