"""Between the bodies of Azure ML's API and the documents of the dialect: pure functions."""
