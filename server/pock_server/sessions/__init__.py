"""Browser sessions: a person signs in with an API key once, and the page keeps a cookie that scripts cannot read."""
