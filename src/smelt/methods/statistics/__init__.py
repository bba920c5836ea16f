"""Stages that read statistics measured on data."""
