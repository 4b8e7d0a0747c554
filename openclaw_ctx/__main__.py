"""``python -m openclaw_ctx`` is the command ``openclaw-ctx``."""

from openclaw_ctx.cli.main import main

if __name__ == "__main__":
    main()
