#if MQTT
import Foundation
import Synchronization
import TestSupport
import Testing

/// The brokers that members are tested with.
enum BrokerKind: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case mosquitto, nats

    var testDescription: String { rawValue }

    /// The path of the program; `nil` without `Scripts/brokers`.
    var program: String? {
        ProcessInfo.processInfo.environment[self == .mosquitto ? "FLEET_MOSQUITTO_PROGRAM" : "FLEET_NATS_PROGRAM"]
    }
}

/// True within `Scripts/brokers`; with `CI` set the tests without brokers fail.
let hasBrokers =
    BrokerKind.allCases.allSatisfy { $0.program != nil } || ProcessInfo.processInfo.environment["CI"] != nil

/// A broker of one test, on a port of its own of the loopback device.
///
/// Its methods block: use it in a suite with the trait `blocking`.
final class TestBroker: @unchecked Sendable {
    // Unchecked: one test uses it, one call at a time.
    let kind: BrokerKind
    let folder: TemporaryFolder
    let port: UInt16
    private let configuration: String
    private var process: Process?
    private var output = Pipe()

    /// Starts a broker.
    ///
    /// - Parameters:
    ///   - kind: The program.
    ///   - configuration: The content of its configuration file, with PORT and FOLDER in their places; by default one that lets
    ///     everybody in.
    ///   - files: Further files of its folder.
    init(_ kind: BrokerKind, configuration text: String? = nil, files: [String: Data] = [:]) throws {
        self.kind = kind
        folder = try TemporaryFolder()
        port = Self.freePort()
        let content = (text ?? Self.open(kind)).replacing("PORT", with: "\(port)").replacing("FOLDER", with: folder.path)
        configuration = try folder.write(content, to: "broker.conf")
        for (name, data) in files { try folder.write(data, to: name) }
        if geteuid() == 0 { try Process(["chown", "-R", "65534", folder.path]).succeed() }
        try start()
    }

    deinit { kill() }

    /// The address for members of this machine.
    var url: String { "mqtt://127.0.0.1:\(port)" }

    private static func open(_ kind: BrokerKind) -> String {
        switch kind {
        case .mosquitto:
            """
            listener PORT 127.0.0.1
            allow_anonymous true
            persistence true
            persistence_location FOLDER/
            log_dest stderr
            max_queued_messages 0
            """
        case .nats:
            """
            server_name: fleet
            listen: 127.0.0.1:-1
            jetstream { store_dir: "FOLDER/store", max_mem: 64MB, max_file: 256MB }
            mqtt { listen: "127.0.0.1:PORT" }
            """
        }
    }

    func start() throws {
        output = Pipe()
        // As root mosquitto would become another user, who may not read everything.
        let user = geteuid() == 0 ? ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"] : []
        let process = Process(user + [try #require(kind.program), "-c", configuration])
        process.standardError = output
        // The threads of tests block signals, and a child inherits that: SIGTERM would not end it.
        var (none, old) = (sigset_t(), sigset_t())
        sigemptyset(&none)
        pthread_sigmask(SIG_SETMASK, &none, &old)
        defer { pthread_sigmask(SIG_SETMASK, &old, nil) }
        try process.run()
        self.process = process
        let reader = output.fileHandleForReading
        var log = ""
        while !log.contains(kind == .mosquitto ? " running" : "Server is ready") {
            let data = reader.availableData
            guard !data.isEmpty else {
                Issue.record("\(kind) did not start: \(log)")
                return
            }
            log += String(decoding: data, as: UTF8.self)
        }
        // Read on, so that the broker can always write.
        reader.readabilityHandler = { _ = $0.availableData }
    }

    /// Ends it in order: it writes its store.
    func stop() { end(SIGTERM) }

    /// Ends it at once.
    func kill() { end(SIGKILL) }

    /// Removes what it has stored, while it is stopped.
    func removeStore() throws {
        for name in ["mosquitto.db", "store"] {
            let file = folder.url.appendingPathComponent(name)
            if FileManager.default.fileExists(atPath: file.path) { try FileManager.default.removeItem(at: file) }
        }
    }

    private func end(_ signal: Int32) {
        guard let process else { return }
        self.process = nil
        Foundation.kill(process.processIdentifier, signal)
        process.waitUntilExit()
        output.fileHandleForReading.readabilityHandler = nil
    }

    private static let lastPort = Atomic(UInt16(10_000 + getpid() % 10_000))

    /// Returns a free port, to each caller another one, and below those that the kernel gives away: it stays free.
    static func freePort() -> UInt16 {
        while true {
            let port = lastPort.add(1, ordering: .relaxed).newValue
            if SilentServer.canListen(at: port) { return port }
        }
    }
}
#endif
