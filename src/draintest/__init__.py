"""The drain test: harm real workers, judge from outside whether anything was lost or done twice.

It talks to a target through commands and JSON alone, and to the target's tools as the outside
world that they act upon. It never looks into the target's database.
"""
