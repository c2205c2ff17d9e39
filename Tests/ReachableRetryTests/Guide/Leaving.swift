import ReachableRetry

func discard(_ photo: Photo, on bus: RetryBus) {
    bus.cancel(JobID(photo.name))
}

func quit(_ bus: RetryBus) async {
    await bus.shutdown(drain: .seconds(10))
}
