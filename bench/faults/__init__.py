"""A seeded fault suite: jobs are launched on real hosts, and things are broken at random moments."""
