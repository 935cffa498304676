"""Cases: loading bundles, the view library and its rows."""
