"""Reader of the bundle format: strict container, typed manifest, bounded columns.

Written against ``capture/BUNDLE.md``; it shares that page with the recorder, no code.
"""

from __future__ import annotations
