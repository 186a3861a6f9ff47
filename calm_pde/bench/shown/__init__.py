"""How a campaign is shown."""
