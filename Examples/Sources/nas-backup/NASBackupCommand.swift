import Foundation
import ReachableFleet
import ReachableJobs
import ReachableRetry

@main struct NASBackupCommand {
    static func main() async throws {
        var words = CommandLine.arguments.dropFirst()
        switch (words.popFirst(), words.popFirst(), words.popFirst(), words.popFirst()) {
        case ("announce", let broker?, nil, nil): try await Home(broker: FleetBroker(broker)).announce(FleetName("nas"))
        case ("serve", let queue?, let broker?, nil): try await serve(queue, Home(broker: FleetBroker(broker)))
        case ("add", let queue?, let file?, let url?):
            guard let server = URL(string: url) else { return print(usage) }
            let backup = BackUp(file: URL(filePath: file).path, server: server)
            print(try await backupQueue(queue, bus: .shared).push(backup, unique: .keep(backup.file)).id)
        case ("list", let queue?, nil, nil):
            for job in try await backupQueue(queue, bus: .shared).jobs() {
                guard let backup = job.parameters(as: BackUp.self) else { continue }
                let (started, charged) = (job.counters.started, job.counters.charged)
                print("\(backup.file) (\(job.state), \(started) attempts, \(charged) charged)")
            }
        default: print(usage)
        }
    }

    static let usage = """
        nas-backup announce BROKER (on the NAS) | nas-backup serve QUEUE BROKER
        nas-backup add QUEUE FILE URL | nas-backup list QUEUE
        QUEUE is a file or postgres://…, and BROKER mqtt://HOST
        """
}
