"""``python -m remoterun``."""

from remoterun.cli.main import main

main()
