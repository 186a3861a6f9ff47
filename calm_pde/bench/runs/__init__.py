"""What a campaign runs."""
