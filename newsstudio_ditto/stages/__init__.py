"""Preprocessing stages: passive functions that turn a source into streams of packet parts. No Dagster here."""
