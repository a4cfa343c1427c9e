"""On-policy distillation: a teacher says how likely it finds what the policy did."""
