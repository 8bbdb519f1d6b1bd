import sys

from tests.lab.command import main

sys.exit(main())
