"""Commands that look at data: learn, mix, neulig, measure, tune, select."""
