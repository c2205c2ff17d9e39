#if MQTT
internal import CLibMosquitto
internal import Glibc

/// The sentences of failed connections; none has a password or a user's name.
extension MosquittoClient {
    private var place: String { broker.description }

    /// Returns the failure of a connection that was not made.
    ///
    /// - Parameters:
    ///   - result: libmosquitto's code.
    ///   - number: The errno, or the number of getaddrinfo(3) for a failed lookup.
    func refusal(_ result: Int32, _ number: Int32) -> FleetError {
        if let refusal { return refused(refusal) }
        if let failure = tlsFailure { return failure }
        switch result {
        case code(MOSQ_ERR_EAI):
            let reason = String(cString: gai_strerror(number))
            return unreachable(
                "the broker's name \(broker.host) was not found: \(reason)", next: "check the name and this machine's name servers")
        case code(MOSQ_ERR_TLS), code(MOSQ_ERR_TLS_HANDSHAKE):
            return FleetError(
                .notSecure, subject: "no encrypted connection to \(place) was made; next: check its port and its certificate")
        case code(MOSQ_ERR_NOMEM): return unreachable("there is no memory for a connection", next: "end other programs")
        default: break
        }
        switch number {
        case ECONNREFUSED: return unreachable("nothing listens at \(place)", next: "check that the broker runs, and its port")
        case 0, ECONNRESET, EPIPE, EPROTO, EAGAIN, EINPROGRESS:
            // A reset may overtake the alert that tells more.
            let remedy =
                broker.usesTLS
                ? "check that the port is for TLS and the broker trusts this client's certificate"
                : "check that the port is the one without TLS"
            return unreachable("\(place) closed the connection before it was accepted", next: "\(remedy), and look into its log")
        default:
            let reason = String(cString: strerror(number))
            return unreachable("\(place) was not reached: \(reason)", next: "check that this machine can reach it")
        }
    }

    /// Returns the failure of a broker that does not answer.
    func silence(_ seconds: Int64) -> FleetError {
        unreachable(
            "\(place) did not answer within \(seconds) s", next: "check that the broker runs and that this machine can reach it")
    }

    /// Returns the failure of a connection that was made.
    ///
    /// - Parameter topics: The topics of messages that the broker has not confirmed.
    func loss(_ result: Int32, topics: some Sequence<String>) -> FleetError {
        if refusesSubscription {
            return FleetError(
                .refused, subject: "\(place) does not let this client read the site; next: allow it in the broker's access list")
        }
        if let failure = tlsFailure { return failure }
        if result == code(MOSQ_ERR_KEEPALIVE) {
            return FleetError(
                .connectionLost,
                subject: "\(place) has stopped answering; next: check that the broker runs and that this machine can reach it")
        }
        // Measured with 2.9: it ends the connection, and says why in its log only.
        let dots = topics.contains { $0.contains(".") } ? "; NATS before 2.10 takes no names with a dot" : ""
        return FleetError(.connectionLost, subject: "\(place) closed the connection; next: look into the broker's log\(dots)")
    }

    private func refused(_ code: Int32) -> FleetError {
        switch code {
        case 1: FleetError(.refused, subject: "\(place) does not speak MQTT 3.1.1; next: use a broker that does")
        case 2: FleetError(.refused, subject: "\(place) refuses this client's identifier; next: look into the broker's log")
        case 3: unreachable("\(place) is not ready", next: "wait, or look into the broker's log")
        case 4: FleetError(.refused, subject: "\(place) refuses the user name or password; next: correct the password file")
        case 5:
            FleetError(
                .refused,
                subject: "\(place) does not authorise this client; next: check its name, password and rights at the broker")
        default: FleetError(.refused, subject: "\(place) refuses the connection with code \(code); next: look into its log")
        }
    }

    private var tlsFailure: FleetError? {
        guard !complaints.isEmpty else { return nil }
        func has(_ words: String...) -> Bool { complaints.contains { line in words.contains { line.contains($0) } } }
        let (reason, next): (String, String)
        if has("host name verification failed") {
            (reason, next) = (
                "the certificate of \(place) has another name",
                "connect to the name in the certificate, or give the broker one for this name"
            )
        } else if has("certificate verify failed") {
            (reason, next) = ("the certificate of \(place) is not trusted", "give the CA file that has signed it, or renew it")
        } else if has("Unable to load", "inconsistent", "no start line", "bad decrypt") {
            return FleetError(
                .unusableFile,
                subject: "a file of certificates cannot be used; next: check that the CA file, the certificate and its key are in "
                    + "PEM, belong together and need no password")
        } else if has("alert") {
            (reason, next) = (
                "\(place) does not accept this client's certificate", "give a certificate that the broker's authority has signed"
            )
        } else if has("wrong version number", "unexpected eof", "packet length too long", "unknown protocol") {
            (reason, next) = ("\(place) does not speak TLS at this port", "use the port for TLS")
        } else if has("OpenSSL Error", "TLS") {
            (reason, next) = ("no encrypted connection to \(place) was made", "check the port and the certificates")
        } else {
            return nil
        }
        return FleetError(.notSecure, subject: "\(reason); next: \(next)")
    }

    private func unreachable(_ reason: String, next: String) -> FleetError {
        FleetError(.unreachable, subject: "\(reason); next: \(next)")
    }
}

/// Returns libmosquitto's code as its functions return it.
func code(_ code: mosq_err_t) -> Int32 { Int32(code.rawValue) }
#endif
