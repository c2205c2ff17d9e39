import ReachableRetry

func show(_ job: Job<[String]>, on screen: (String) -> Void) async {
    for await event in job.events {
        switch event {
        case .waiting(for: let missing): screen("Waiting for \(missing.map(\.description).joined(separator: " and ")).")
        case .attemptStarted: screen("Loading…")
        case .backingOff(let delay): screen("Trying again in \(delay.components.seconds) s.")
        case .succeeded(let headlines): screen(headlines.joined(separator: "\n"))
        case .gaveUp(let error, _): screen("That did not work: \(error)")
        case .attemptSucceeded, .attemptFailed, .cancelled: break
        }
    }
}
