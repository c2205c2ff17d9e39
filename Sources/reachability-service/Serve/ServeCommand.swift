import ArgumentParser
import CProcess
import CommandKit
import Glibc
import Reachability

/// The command `serve`.
struct ServeCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve",
        abstract: "Serves a live page, metrics and events about the network, and keeps their history.",
        discussion: """
            Runs until it is stopped, without privileges. It listens on a loopback address or a Unix socket only, and changes \
            nothing on request. On a loopback address every user of this machine can read what it serves; a Unix socket is its \
            owner's.

            EXAMPLES
              reachability-watch serve
              reachability-watch serve --to internet --to nas.local --listen 127.0.0.1:9000
              reachability-watch serve --listen unix:/run/user/1000/reach.sock
              reachability-watch serve --hooks /etc/reachability/hooks.d
              reachability-watch serve --announce kiosk-7 --site home --broker mqtts://broker.local
              curl -s http://127.0.0.1:8787/status
              curl -sN http://127.0.0.1:8787/events

            ENDPOINTS
              /         the page                  /status   the state with its evidence, as JSON
              /metrics  for Prometheus            /history  the timeline, as JSON (?hours=24)
              /events   server-sent events

            FLEET
              --announce tells the other machines of a site that this one is there, with the state of the first --to, and shows \
            them on the page. The trigger retry-now (reachability-watch fleet trigger retry-now) makes the queue try waiting \
            commands at once.

            FILES
              $XDG_STATE_HOME/reachability-watch/history.db (~/.local/state/reachability-watch/history.db), or --history; under \
            systemd in $STATE_DIRECTORY

            SYSTEMD
              sudo systemctl enable --now reachability    # docs/systemd.md: readiness, status, watchdog, event socket

            EXIT CODES
              64  usage                    73  cannot listen there, or no history can be created there
              65  not a history            74  reading or writing failed
              66  no directory of hooks    77  the history is not yours, or others may write it or the hooks
              69  netlink not available, or built without what an option needs
            """)

    @Option(
        help: ArgumentHelp(
            "Listen here: a loopback address with a port, or unix:PATH. Default: 127.0.0.1:8787.",
            valueName: "addr:port|unix:path"),
        transform: { try ListenAddress($0) })
    var listen = ListenAddress.standard

    @OptionGroup var target: ScopeOptions
    @OptionGroup var monitoring: MonitorOptions

    @Option(
        help: ArgumentHelp(
            "Keep the history in this directory, or none. Default: $XDG_STATE_HOME/reachability-watch.", valueName: "dir|none"),
        completion: .directory)
    var history: String?

    @Option(
        help: ArgumentHelp(
            "Show this queue, or none: a file, or postgres://user@host/database. Default: the queue of this user, if there is one.",
            valueName: "path|none"),
        completion: .file())
    var store: String?

    @OptionGroup var hooks: ServeHookOptions

    @OptionGroup var fleet: ServeFleetOptions

    func validate() throws {
        if history == "" || store == "" { throw ValidationError("--history and --store may not be empty; next: write none") }
        try store.map(StoreOption.checkPassword)
    }

    func run() {
        // Before any other thread exists. With an arena of its own, each of the pools' threads would keep what it once needed.
        cprocess_limit_arenas(2)
        let manager = ServiceManager.take()
        if hooks.hooks == nil { run(manager, nil) }
        // Two functions: the optimizer of Swift 6.3.1 fails on a single one (CopyPropagation reports an ownership error).
        switch Result(catching: { () throws(ReachabilityError) in
            try ChildSupervisor(leavesSignals: true, say: DescriptorOutput.printMessage)
        }) {
        case .success(let supervisor): run(manager, supervisor)
        case .failure(let error): Program.end(with: error)
        }
    }

    private func run(_ manager: ServiceManager, _ supervisor: ChildSupervisor?) -> Never {
        // A service manager waits longer than a person, and the last events are counted. A fleet hears that this machine ends.
        let isAnnounced = fleet.name(Program.environment) != nil
        let limit = manager.notifyAddress == nil && !isAnnounced ? Program.timeToEnd : .seconds(5)
        Program.run(in: target.namespacePath, endingWithin: limit, supervisor: supervisor) { [self] interruption in
            do throws(CommandFailure) {
                return try await serve(for: manager, until: interruption, supervisor)
            } catch {
                DescriptorOutput.printMessage(quotingInput(in: error.message, words: RawArguments.texts))
                return error.status
            }
        }
    }

    #if Service
    private func serve(
        for manager: ServiceManager, until interruption: AsyncStream<Int32>, _ supervisor: ChildSupervisor?
    ) async throws(CommandFailure) -> ExitStatus {
        // Everything that the service creates is its user's alone.
        let mask = umask(0o077)
        var served: ServeHooks?
        if let supervisor {
            served = try ServeHooks(
                hooks, scopes: target.scopes, supervisor: supervisor, fileModeMask: mask, say: DescriptorOutput.printMessage)
        }
        let history = try keptHistory()
        try await history.open()
        if case .socket(let path) = listen { try SocketFile(path: path).prepare() }
        let inherited = Self.network(from: manager.descriptors)
        let monitor = ReachabilityMonitor(inherited ?? KernelNetwork(), configuration: monitoring.configuration)
        let joined = try servedFleet(monitor)
        let limits = ServiceLimits.ofThisProcess(runsHooks: served != nil, isInFleet: joined != nil)
        let session = ServeSession(
            monitor, scopes: target.scopes, history: history, queue: queueView(monitor), hooks: served,
            fleet: joined, maxReaders: limits.readers, notifier: ServiceNotifier(manager))
        let service = RunningService(
            session: session, address: listen, maxConnections: limits.connections, handsOver: inherited != nil)
        switch await service.run(until: interruption) {
        case .interrupted: return .yes
        case .monitorEnded(let error): return error.map { Program.report($0) } ?? .unknown
        case .failed(let failure): throw failure
        }
    }

    /// Returns a source on the first event socket among the manager's descriptors; `nil` if there is none.
    ///
    /// A descriptor that cannot be used is reported and closed: the service runs without it.
    private static func network(from descriptors: [ServiceManager.Descriptor]) -> KernelNetwork? {
        var network: KernelNetwork?
        for descriptor in descriptors {
            do throws(ReachabilityError) {
                if network == nil {
                    network = try KernelNetwork(takingOver: descriptor.number)
                    continue
                }
            } catch {
                DescriptorOutput.printMessage("\(quotation(descriptor.name)): \(error); going on without it")
            }
            close(descriptor.number)
        }
        return network
    }
    #else
    private func serve(
        for manager: ServiceManager, until interruption: AsyncStream<Int32>, _ supervisor: ChildSupervisor?
    ) async throws(CommandFailure) -> ExitStatus {
        throw CommandFailure(
            .unavailable, "this build cannot serve; next: build it with `swift build --traits Service`")
    }
    #endif

    // MARK: - Places

    private func keptHistory() throws(CommandFailure) -> History {
        #if SQLite
        guard let directory = try historyDirectory() else {
            return History(target.scopes, opening: nil, report: DescriptorOutput.printMessage)
        }
        let started = ServiceClock.kernel.wallTime()
        return History(
            target.scopes,
            opening: { () throws(CommandFailure) in try HistoryFile(directory: directory, started: started) },
            report: DescriptorOutput.printMessage)
        #else
        return History(target.scopes, opening: nil, report: DescriptorOutput.printMessage)
        #endif
    }

    /// Returns the directory of the history; `nil` for none.
    private func historyDirectory() throws(CommandFailure) -> String? {
        if let history { return history == "none" ? nil : history }
        guard let directory = ServePlaces.historyDirectory(Program.environment) else {
            throw CommandFailure(
                .usage,
                "neither STATE_DIRECTORY, XDG_STATE_HOME nor HOME is set; next: name a directory with --history, or --history none")
        }
        return directory
    }

    private func servedFleet(_ monitor: ReachabilityMonitor) throws(CommandFailure) -> ServedFleet? {
        guard let (node, place) = try fleet.place(Program.environment) else { return nil }
        return try ServedFleet(
            node, at: place, monitor: monitor, scopes: target.scopes, stateDirectory: try? historyDirectory(),
            say: DescriptorOutput.printMessage)
    }

    private func queueView(_ monitor: ReachabilityMonitor) -> QueueView? {
        if store == "none" { return nil }
        return (store ?? (try? StoreOption.defaultPath())).map { QueueView(path: $0, monitor) }
    }
}

/// The default places of files.
enum ServePlaces {
    /// Returns the directory of the history: systemd's state directory (systemd.exec(5)), or that of the user (XDG Base Directory
    /// Specification); `nil` if the environment names none.
    static func historyDirectory(_ environment: (String) -> String?) -> String? {
        if let list = environment("STATE_DIRECTORY"), let first = list.split(separator: ":").first { return String(first) }
        return stateDirectory(environment)
    }

    /// Returns the state directory of this user; a relative path is invalid (XDG Base Directory Specification).
    static func stateDirectory(_ environment: (String) -> String?) -> String? {
        if let state = environment("XDG_STATE_HOME"), state.hasPrefix("/") { return "\(state)/reachability-watch" }
        if let home = environment("HOME"), home.hasPrefix("/") { return "\(home)/.local/state/reachability-watch" }
        return nil
    }
}
