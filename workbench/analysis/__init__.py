"""Models: what is computed in Python from the views and read by the views again.

Importing this package registers them with the library, which orders models and views in
one graph; nothing else happens at import.
"""

from __future__ import annotations

from workbench.analysis import clock_model
from workbench.store.models import ModelSpec, register

MODELS = (
    ModelSpec(
        name="clock",
        reads=clock_model.READS,
        writes=clock_model.WRITES,
        run=clock_model.run,
    ),
)

for _model in MODELS:
    register(_model)
