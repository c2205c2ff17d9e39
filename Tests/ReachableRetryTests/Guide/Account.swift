import Reachability
import ReachableRetry

final class Account: Sendable {
    private let login = ConditionSource("login", isSatisfied: false)

    func logIn() { login.set(true) }

    func upload(_ photo: Photo, to server: some PhotoServer, over bus: RetryBus) async throws {
        try await bus.retry(.upload, options: JobOptions(when: [login.condition], id: JobID(photo.name))) { _ in
            let epoch = login.condition.state.epoch
            do {
                try await server.store(photo)
            } catch let refusal as Refusal where refusal.status == 401 {
                // Not if the user has logged in meanwhile.
                if login.condition.state.epoch == epoch { login.set(false) }
                throw refusal
            }
        }
    }
}
