#if Service
import CommandKit
import Glibc
import Reachability

/// A session with its HTTP server, until a signal.
struct RunningService: Sendable {
    /// The reason why a service ended.
    enum End: Sendable {
        case interrupted
        /// The monitor ended, with an error if there was one.
        case monitorEnded(ReachabilityError?)
        case failed(CommandFailure)
    }

    let session: ServeSession
    let address: ListenAddress
    let maxConnections: Int
    /// True if another process takes over the event socket after the end.
    var handsOver = false
    /// Writes a message.
    var say: @Sendable (String) -> Void = { DescriptorOutput.printMessage($0) }

    /// Serves until the stream has an element.
    func run(until interruption: AsyncStream<Int32>) async -> End {
        let hooks = session.hooks?.runner
        let hooking = hooks.map { hooks in
            // Subscribed before the monitor runs.
            let streams = session.scopes.map { session.monitor.transitions(to: $0) }
            return Task { await hooks.run(following: streams) }
        }
        let readiness = Readiness(address, session.notifier, say)
        let monitoring = Task { await session.run { await readiness.noteVerdict() } }
        let end = await withTaskCancellationHandler {
            await withTaskGroup(of: End.self) { group in
                group.addTask { .monitorEnded(await monitoring.value) }
                group.addTask { await serve { await readiness.noteListening(port: $0) } }
                group.addTask {
                    for await _ in interruption { break }
                    return .interrupted
                }
                let end = await group.next() ?? .interrupted
                hooks?.stop()
                monitoring.cancel()
                // Before the connections end: a signal leaves little time (``Program``), and open streams take some of it.
                async let closing: Void = session.close()
                await session.notifier?.noteStop()
                _ = await monitoring.value
                if handsOver { say("ended after \(Self.text(session.monitor.eventCounts)); later ones stay in the socket") }
                await closing
                if case .socket(let path) = address { unlink(path) }
                group.cancelAll()
                return end
            }
        } onCancel: {
            monitoring.cancel()
        }
        await hooking?.value
        return end
    }

    /// Returns the numbers of events in words: `1003 kernel events (link 3, rule 1000)`.
    static func text(_ events: EventCounts) -> String {
        let kinds = EventCounts.Kind.allCases.filter { events[$0] > 0 }
        let total = kinds.reduce(0) { $0 + events[$1] }
        let list = kinds.map { "\($0.rawValue) \(events[$0])" }.joined(separator: ", ")
        return "\(total) kernel event\(total == 1 ? "" : "s")\(list.isEmpty ? "" : " (\(list))")"
    }

    private func serve(_ onListening: @escaping @Sendable (Int?) async -> Void) async -> End {
        do {
            try await HTTPService(address: address, session: session, connections: ConnectionLimit(maxConnections))
                .run(onListening: onListening)
            return .interrupted
        } catch let failure as CommandFailure {
            return .failed(failure)
        } catch {
            return .failed(CommandFailure(.unknown, "\(error)"))
        }
    }
}

/// The moment at which a service is ready: it listens, and every scope has its first verdict.
private actor Readiness {
    private let address: ListenAddress
    private let notifier: ServiceNotifier?
    private let say: @Sendable (String) -> Void
    private var url: String?
    private var hasVerdict = false

    init(_ address: ListenAddress, _ notifier: ServiceNotifier?, _ say: @escaping @Sendable (String) -> Void) {
        (self.address, self.notifier, self.say) = (address, notifier, say)
    }

    func noteListening(port: Int?) async {
        // The file got the mode of the umask.
        if case .socket(let path) = address { chmod(path, 0o600) }
        url = address.url(port: port)
        await announce()
    }

    func noteVerdict() async {
        hasVerdict = true
        await announce()
    }

    private func announce() async {
        guard hasVerdict, let url else { return }
        say("serving on \(url)")
        await notifier?.noteReady()
    }
}

/// The limits of a service, by the descriptors that its process may open.
struct ServiceLimits: Hashable {
    /// The number of connections.
    var connections: Int
    /// The number of readers of `/events`.
    var readers: Int

    /// - Parameters:
    ///   - files: The limit of open files (RLIMIT_NOFILE).
    ///   - open: The number of open files.
    ///   - runsHooks: True if hooks run.
    ///   - isInFleet: True if this machine is announced to a fleet.
    init(files: Int, open: Int, runsHooks: Bool = false, isInFleet: Bool = false) {
        // The monitor opens 11, the event loop 4 and the queue's store 9. The rest is for name lookups, libdispatch
        // (``StartConditions``) and connections that are just closing.
        // The start of a hook opens 4, and 3 more in the child. A connection to a broker opens 5, and 1 more while it reads files.
        let reserve = 32 + (runsHooks ? 8 : 0) + (isInFleet ? 6 : 0)
        connections = min(512, max(4, files - open - reserve))
        // Some connections are left for those that ask for documents.
        readers = max(1, connections - max(2, connections / 4))
    }

    /// The limits for this process.
    static func ofThisProcess(runsHooks: Bool, isInFleet: Bool) -> ServiceLimits {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        let open = (0..<Int32(1024)).count { fcntl($0, F_GETFD) >= 0 }
        return ServiceLimits(files: Int(clamping: limit.rlim_cur), open: open, runsHooks: runsHooks, isInFleet: isInFleet)
    }
}
#endif
