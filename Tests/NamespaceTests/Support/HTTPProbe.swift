import Foundation
import Glibc
import MisbehavingServer
import Reachability
import TestSupport

/// The HTTP client of a request.
enum HTTPClientKind: String, Sendable, CaseIterable {
    case urlSession
    #if AsyncHTTPClient
    case asyncHTTPClient
    #endif
}

/// Requests from within a machine to a server at the other end of its first cable.
extension CabledNetwork {
    /// Creates a machine that is online, with an address at the far end.
    static func withFarEnd() async throws -> CabledNetwork {
        let network = try await online()
        try await network.far.ip("addr add 192.0.2.1/24 dev remote0")
        return network
    }

    /// Starts a server at the far end.
    func serve(
        progress: @escaping @Sendable (Request, Int) -> Void = { _, _ in }, _ answer: @escaping @Sendable (Request) -> Reply
    ) throws -> MisbehavingServer {
        let path = far.path
        return try MisbehavingServer(
            at: "192.0.2.1", port: 80, prepare: { try enterNetworkNamespace(path) }, progress: progress, answer: answer)
    }

    /// Runs a body beside the server of ``serveTLS()``, and ends that.
    static func withTLSServer(
        _ body: (CabledNetwork, _ certificate: String, _ posts: String) async throws -> Void
    ) async throws {
        let network = try await withFarEnd()
        let (server, certificate, posts) = try await network.serveTLS()
        defer {
            server.signal(SIGKILL)
            for file in [certificate, posts] { unlink(file) }
        }
        try await body(network, certificate, posts)
    }

    /// Starts a TLS server at the far end, which answers every request with `hello` and keeps connections.
    ///
    /// It carries out each `POST` by writing its path and the length of its body to a file; then it answers, or ends the
    /// connection instead, or soon afterwards. One with the password leads from /enter to /inside, with a
    /// cookie, and from /leave to another server.
    ///
    /// - Returns: the listening server, the file with its certificate, and the one with the posts.
    private func serveTLS() async throws -> (server: Child, certificate: String, posts: String) {
        let posts = marker("posts")
        let (certificate, key) = (marker("cert.pem"), marker("key.pem"))
        let missing = ["openssl", "python3"].filter { name in
            let folders = ProcessInfo.processInfo.environment["PATH"]?.split(separator: ":") ?? []
            return !folders.contains { FileManager.default.isExecutableFile(atPath: "\($0)/\(name)") }
        }
        guard missing.isEmpty else {
            throw Child.Failure(
                description: "no server over TLS without \(missing); next: Scripts/bootstrap installs what is missing")
        }
        try await Child.run([
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "2", "-subj",
            "/CN=192.0.2.1", "-addext", "subjectAltName=IP:192.0.2.1",
        ])
        let program = """
            import http.server, random, ssl, sys, time
            random.seed(7)
            class Handler(http.server.BaseHTTPRequestHandler):
                protocol_version = "HTTP/1.1"
                def do_GET(self):
                    isInside = self.path != "/inside" or self.headers.get("Cookie") == "a=b"
                    self.send_response(200 if isInside else 403)
                    self.send_header("Content-Length", "5")
                    self.end_headers()
                    self.wfile.write(b"hello")
                def do_POST(self):
                    length = int(self.headers.get("Content-Length", 0))
                    body = self.rfile.read(length)
                    # The client is gone: there is nothing to carry out.
                    if len(body) < length: return
                    with open(sys.argv[3], "a") as file: file.write(f"{self.path} {len(body)}\\n")
                    places = {"/enter": "/inside", "/leave": "http://192.0.2.1/there"}
                    if self.path in places:
                        self.send_response(303 if self.headers.get("Authorization") == "Basic dTpw" else 403)
                        for line in [("Location", places[self.path]), ("Set-Cookie", "a=b"), ("Content-Length", "0")]:
                            self.send_header(*line)
                        return self.end_headers()
                    # Small servers keep a connection that a client wants to be closed.
                    self.close_connection = random.random() < 0.3
                    time.sleep(random.random() / 200)
                    if self.close_connection and random.random() < 0.7: return
                    self.send_response(200)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                def log_message(self, *arguments): pass
            server = http.server.ThreadingHTTPServer(("192.0.2.1", 443), Handler)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(sys.argv[1], sys.argv[2])
            server.socket = context.wrap_socket(server.socket, server_side=True)
            print("listening", flush=True)
            server.serve_forever()
            """
        let server = try Child(["ip", "netns", "exec", far.name, "python3", "-c", program, certificate, key, posts])
        var lines = server.lines.makeAsyncIterator()
        let first = await lines.next(isolation: #isolation)
        unlink(key)
        guard first == "listening" else {
            throw Child.Failure(description: "no server over TLS; next: install a python3 that has the module ssl")
        }
        return (server, certificate, posts)
    }

    /// Starts a request in the machine, which writes a line for each of its events.
    ///
    /// Names are looked up at 192.0.2.53, on the cable. While no machine has that address, a lookup fails after 1 s.
    ///
    /// - Parameter descriptors: The number of descriptors that the process may have; `nil` for the test's own limit.
    /// - Parameter authority: The file of the only trusted certificate, for a request over https. Foundation has no setting for
    ///   that: libcurl reads one file.
    func request(
        _ kind: String, by client: HTTPClientKind = .urlSession, _ host: String = "192.0.2.1", path: String = "",
        lookupTimeout: Int = 1, scheme: String = "http", authority: String? = nil, descriptors: Int? = nil, _ options: String...
    ) throws -> Child {
        // ip-netns(8) gives the command its own mount namespace: no other process sees this file there.
        let servers = marker("resolv.conf")
        try "nameserver 192.0.2.53\noptions timeout:\(lookupTimeout) attempts:1\n".write(
            toFile: servers, atomically: true, encoding: .utf8)
        let script = """
            mount --bind "$0" /etc/resolv.conf && rm "$0" || exit
            if [ -n "$1" ]; then mount --bind "$1" /etc/ssl/certs/ca-certificates.crt || exit; fi
            if [ -n "$2" ]; then ulimit -n "$2" || exit; fi
            shift 2 && exec "$@"
            """
        return try Child(
            [
                "ip", "netns", "exec", near.name, "sh", "-c", script, servers, authority ?? "",
                descriptors.map { "\($0)" } ?? "", builtProgram("http-probe"), kind, "\(scheme)://\(host)/\(path)", "--client",
                client.rawValue,
            ] + options)
    }
}

extension Child {
    /// Returns its output up to its end.
    func report() async -> [String] {
        var output: [String] = []
        for await line in lines { output.append(line) }
        return output
    }

    /// The lines up to the one that completes a number of a kind, or up to the end.
    func report(until count: Int, _ isCounted: (String) -> Bool) async -> [String] {
        var (output, left): ([String], Int) = ([], count)
        for await line in lines {
            output.append(line)
            if isCounted(line) { left -= 1 }
            if left == 0 { break }
        }
        return output
    }
}
