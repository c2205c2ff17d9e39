#if MQTT
internal import CLibMosquitto
internal import Glibc

/// A client of libmosquitto, and what its callbacks have reported.
///
/// One thread at a time: the one that opens it, then the loop's.
// Unchecked: the thread that opens it gives it to the loop's queue, under its lock, and does not keep it.
final class MosquittoClient: @unchecked Sendable {
    enum Report {
        case connected
        case subscribed
        case message(FleetMessage)
        case published(Int32)
    }

    private static let isReady = mosquitto_lib_init() == Int32(MOSQ_ERR_SUCCESS.rawValue)

    let broker: FleetBroker
    private let pointer: OpaquePointer
    /// The reports since the last ``takeReports()``, in order.
    private var reports: [Report] = []
    /// The code with which the broker has refused the connection (MQTT 3.1.1 §3.2.2.3).
    private(set) var refusal: Int32?
    /// True if the broker has refused the subscription (§3.9.3).
    private(set) var refusesSubscription = false
    /// The last lines of libmosquitto's log that tell a failure.
    private(set) var complaints: [String] = []

    /// Makes a client that is not connected; `nil` without memory.
    init?(_ broker: FleetBroker, clientID: String) {
        guard Self.isReady, let pointer = mosquitto_new(clientID, true, nil) else { return nil }
        (self.broker, self.pointer) = (broker, pointer)
        mosquitto_user_data_set(pointer, Unmanaged.passUnretained(self).toOpaque())
        setCallbacks()
    }

    deinit { mosquitto_destroy(pointer) }

    private static func of(_ data: UnsafeMutableRawPointer?) -> MosquittoClient? {
        data.map { Unmanaged<MosquittoClient>.fromOpaque($0).takeUnretainedValue() }
    }

    private func setCallbacks() {
        mosquitto_connect_callback_set(pointer) { _, data, code in
            if code == 0 { MosquittoClient.of(data)?.reports.append(.connected) } else { MosquittoClient.of(data)?.refusal = code }
        }
        mosquitto_subscribe_callback_set(pointer) { _, data, _, count, granted in
            guard let client = MosquittoClient.of(data) else { return }
            let codes = UnsafeBufferPointer(start: granted, count: Int(max(0, count)))
            if codes.contains(where: { $0 > 2 }) { client.refusesSubscription = true } else { client.reports.append(.subscribed) }
        }
        mosquitto_publish_callback_set(pointer) { _, data, identifier in
            MosquittoClient.of(data)?.reports.append(.published(identifier))
        }
        mosquitto_message_callback_set(pointer) { _, data, message in
            guard let client = MosquittoClient.of(data), let message = message?.pointee, let topic = message.topic else { return }
            // One byte more than the core reads, so that it counts the message as oversized.
            let count = min(Int(message.payloadlen), WordCoding.largest + 1)
            let payload = UnsafeRawBufferPointer(start: message.payload, count: message.payload == nil ? 0 : max(0, count))
            client.reports.append(
                .message(FleetMessage(topic: String(cString: topic), payload: [UInt8](payload), isRetained: message.retain)))
        }
        mosquitto_log_callback_set(pointer) { _, data, level, text in
            guard level & Int32(MOSQ_LOG_ERR) != 0, let text, let client = MosquittoClient.of(data) else { return }
            if client.complaints.count < 16 { client.complaints.append(String(cString: text)) }
        }
    }

    func takeReports() -> [Report] {
        defer { reports = [] }
        return reports
    }

    // MARK: - Opening

    /// Sets everything up; blocks on files.
    func prepare(will: FleetMessage?) throws(FleetError) {
        mosquitto_int_option(pointer, MOSQ_OPT_PROTOCOL_VERSION, MQTT_PROTOCOL_V311)
        mosquitto_int_option(pointer, MOSQ_OPT_TCP_NODELAY, 1)
        if let will {
            let result = will.payload.withUnsafeBytes {
                mosquitto_will_set(pointer, will.topic, Int32($0.count), $0.baseAddress, 1, will.isRetained)
            }
            guard result == 0 else { throw FleetError(.unreachable, subject: "there is no memory for a connection") }
        }
        if let user = broker.user {
            let password = try broker.passwordFile.map { path throws(FleetError) in try Self.password(path) }
            mosquitto_username_pw_set(pointer, user, password)
        }
        guard broker.usesTLS else { return }
        guard let caFile = broker.caFile else {
            mosquitto_int_option(pointer, MOSQ_OPT_TLS_USE_OS_CERTS, 1)
            // Set with tls_set() alone, or the server would not have to prove anything.
            mosquitto_tls_opts_set(pointer, 1, nil, nil)
            return
        }
        for file in [caFile, broker.certificateFile, broker.keyFile].compactMap(\.self) where access(file, R_OK) != 0 {
            throw Self.unusable(file, errno)
        }
        guard mosquitto_tls_set(pointer, caFile, nil, broker.certificateFile, broker.keyFile, { _, _, _, _ in 0 }) == 0 else {
            throw FleetError(.unusableFile, subject: "the files of certificates cannot be used; next: check that they can be read")
        }
    }

    /// Returns the first line of a file.
    private static func password(_ path: String) throws(FleetError) -> String {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { throw unusable(path, errno) }
        defer { close(file) }
        var bytes = [UInt8](repeating: 0, count: 65_536)
        let count = Glibc.read(file, &bytes, bytes.count)
        guard count >= 0 else { throw unusable(path, errno) }
        let line = bytes[..<count].prefix { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }
        guard !line.isEmpty, let password = String(validating: line, as: UTF8.self), !line.contains(0) else {
            throw FleetError(
                .unusableFile, subject: "the first line of \(path) is no password; next: write the broker's password into it")
        }
        return password
    }

    private static func unusable(_ path: String, _ number: Int32) -> FleetError {
        FleetError(
            .unusableFile,
            subject: "\(path) cannot be read: \(String(cString: strerror(number))); next: check the path and its rights")
    }

    /// Looks up the host and begins to connect; blocks while name servers answer.
    func connect(keepAlive: Int32, _ family: MosquittoTransport.Family) -> (result: Int32, number: Int32) {
        let source: String? =
            switch family {
            case .any: nil
            case .ipv4: "0.0.0.0"
            case .ipv6: "::"
            }
        errno = 0
        let result = mosquitto_connect_bind_async(pointer, broker.host, Int32(broker.port), keepAlive, source)
        return (result, errno)
    }

    // MARK: - The loop's thread

    var socket: Int32 { mosquitto_socket(pointer) }
    var wantsWrite: Bool { mosquitto_want_write(pointer) }

    func read() -> (result: Int32, number: Int32) {
        errno = 0
        let result = mosquitto_loop_read(pointer, 1)
        return (result, errno)
    }

    func write() -> (result: Int32, number: Int32) {
        errno = 0
        let result = mosquitto_loop_write(pointer, 1)
        return (result, errno)
    }

    /// Sends a ping if it is time, and notices a broker that did not answer the last one.
    func checkKeepAlive() -> Int32 { mosquitto_loop_misc(pointer) }

    func subscribe(_ filters: [String]) -> Int32 {
        var names = filters.map { strdup($0) }
        defer { for name in names { free(name) } }
        return names.withUnsafeMutableBufferPointer {
            mosquitto_subscribe_multiple(pointer, nil, Int32($0.count), $0.baseAddress, 1, 0, nil)
        }
    }

    /// Returns the identifier that the broker's answer will have, or `nil`.
    func publish(_ message: FleetMessage) -> Int32? {
        var identifier: Int32 = 0
        let result = message.payload.withUnsafeBytes {
            mosquitto_publish(pointer, &identifier, message.topic, Int32($0.count), $0.baseAddress, 1, message.isRetained)
        }
        return result == 0 ? identifier : nil
    }

    func disconnect() { mosquitto_disconnect(pointer) }
}
#endif
