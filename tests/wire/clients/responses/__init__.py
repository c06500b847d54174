"""Tests of the codec of the Responses API."""
