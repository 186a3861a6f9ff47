"""Campaigns: many models on many data sets, trained one after the other, and the table of what they reached."""
