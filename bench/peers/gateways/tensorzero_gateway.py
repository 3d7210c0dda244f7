"""TensorZero's gateway, as its package brings it, in a process of its own: tensorzero_gateway.py CONFIG PORT_FILE.

It chooses its port itself, which stands in PORT_FILE then. The program of its own is in no registry.
"""

import pathlib
import signal
import sys
import warnings

import openai
import tensorzero

warnings.simplefilter("ignore", DeprecationWarning)
client = openai.OpenAI(api_key="none")
tensorzero.patch_openai_client(client, config_file=sys.argv[1], async_setup=False)
pathlib.Path(sys.argv[2]).write_text(str(client.base_url.port))
signal.pause()
