"""Stages that average or interpolate whole models."""
