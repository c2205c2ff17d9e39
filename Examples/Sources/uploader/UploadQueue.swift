import Foundation
import Logging
import Reachability
import ReachableRetry
import ServiceLifecycle

/// Uploads what is in the outbox, and looks for more every so often.
actor UploadQueue: Service {
    private enum Fate: Equatable {
        case onItsWay
        /// Tried again when the program starts anew, or another file takes the name.
        case givenUp(Parcel)
    }

    private let upload: Upload
    private let monitor: ReachabilityMonitor
    private let interval: Duration?
    private let logger: Logger
    private var fates: [String: Fate] = [:]

    /// Makes a queue.
    ///
    /// - Parameter interval: how often it looks; `nil` for once, after which it ends when all is done.
    init(_ upload: Upload, monitor: ReachabilityMonitor, interval: Duration?, logger: Logger) {
        (self.upload, self.monitor, self.interval, self.logger) = (upload, monitor, interval, logger)
    }

    /// Runs until it is shut down, or done.
    ///
    /// Returns when no upload is left: those that wait end with their bus, which is shut down before.
    func run() async throws {
        // Services start at the same time. Until the monitor has looked, the bus would not know that there is anything to wait for.
        for await _ in monitor.transitions { break }
        try await withThrowingDiscardingTaskGroup { group in
            repeat {
                for parcel in try take() { group.addTask { await self.send(parcel) } }
            } while await pause()
        }
    }

    /// The files that nobody has taken care of yet.
    private func take() throws -> [Parcel] {
        let parcels = try upload.outbox.parcels()
        let names = Set(parcels.map(\.name))
        fates = fates.filter { $0.value == .onItsWay || names.contains($0.key) }
        let new = parcels.filter { fates[$0.name] == nil || isAnother($0) }
        for parcel in new { fates[parcel.name] = .onItsWay }
        return new
    }

    private func isAnother(_ parcel: Parcel) -> Bool {
        if case .givenUp(let old) = fates[parcel.name] { old != parcel } else { false }
    }

    private func send(_ parcel: Parcel) async {
        do {
            try await upload(parcel)
            fates[parcel.name] = nil
            FileHandle.standardOutput.write(Data("sent \(parcel.name)\n".utf8))
        } catch is CancellationError {
            // The program ends; the file stays where it is.
        } catch let error as RetryError where error == .shutDown {
            // The same, for one that was found meanwhile.
        } catch {
            fates[parcel.name] = .givenUp(parcel)
            logger.error("a file stays in the outbox", error: error, metadata: ["file": "\(parcel.name)"])
        }
    }

    /// Waits for the next look; `false` if there is none.
    private func pause() async -> Bool {
        guard let interval else { return false }
        do {
            try await cancelWhenGracefulShutdown { try await Task.sleep(for: interval) }
            return true
        } catch {
            return false
        }
    }
}
