import Foundation
import Logging
import Reachability
import ReachableRetry
import ServiceLifecycle

/// Uploads the files in the outbox, and looks for new ones at intervals.
actor UploadQueue: Service {
    /// The state of a file.
    private enum FileState: Equatable {
        case uploading
        /// Tried again after a restart of the program, or when another file takes the name.
        case givenUp(Parcel)
    }

    private let upload: Upload
    private let monitor: ReachabilityMonitor
    private let interval: Duration?
    private let logger: Logger
    private var states: [String: FileState] = [:]

    /// Makes a queue.
    ///
    /// - Parameter interval: The interval between looks; `nil` to look once and end after the uploads.
    init(_ upload: Upload, monitor: ReachabilityMonitor, interval: Duration?, logger: Logger) {
        (self.upload, self.monitor, self.interval, self.logger) = (upload, monitor, interval, logger)
    }

    /// Runs until it is shut down or done.
    ///
    /// Returns when no upload is left: the bus, which is shut down first, ends those that wait.
    func run() async throws {
        // Services start at the same time. Before the monitor's first verdict the bus would not know whether to wait.
        for await _ in monitor.transitions { break }
        try await withThrowingDiscardingTaskGroup { group in
            repeat {
                for parcel in try take() { group.addTask { await self.send(parcel) } }
            } while await pause()
        }
    }

    /// Returns the files that are not being uploaded yet.
    private func take() throws -> [Parcel] {
        let parcels = try upload.outbox.parcels()
        let names = Set(parcels.map(\.name))
        states = states.filter { $0.value == .uploading || names.contains($0.key) }
        let new = parcels.filter { states[$0.name] == nil || isAnother($0) }
        for parcel in new { states[parcel.name] = .uploading }
        return new
    }

    private func isAnother(_ parcel: Parcel) -> Bool {
        if case .givenUp(let old) = states[parcel.name] { old != parcel } else { false }
    }

    private func send(_ parcel: Parcel) async {
        do {
            try await upload(parcel)
            states[parcel.name] = nil
            FileHandle.standardOutput.write(Data("sent \(parcel.name)\n".utf8))
        } catch is CancellationError {
            // The program ends; the file stays in the outbox.
        } catch let error as RetryError where error == .shutDown {
            // The bus has shut down before the job began.
        } catch {
            states[parcel.name] = .givenUp(parcel)
            logger.error("a file stays in the outbox", error: error, metadata: ["file": "\(parcel.name)"])
        }
    }

    /// Waits for the next look; returns `false` if there is none.
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
