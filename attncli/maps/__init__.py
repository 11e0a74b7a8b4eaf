"""Maps of weights and masks: what show, mask and compare show."""
