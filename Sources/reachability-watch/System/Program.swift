import ArgumentParser
import Glibc
import Reachability
import Synchronization

/// The frame that every command runs in.
enum Program {
    /// Enters the namespace if one is wanted, then runs `body` on other threads while the main thread only waits for signals.
    ///
    /// The order matters: setns(2) moves the calling thread only, and threads are born where their parent is.
    static func run(in namespace: String?, _ body: @escaping @Sendable () async -> ExitStatus) -> Never {
        run(in: namespace, { await body().rawValue }, whileMainThread: { while true { pause() } })
    }

    /// The same with an exit code that is somebody else's, and with work for the main thread.
    static func run(
        in namespace: String?, _ body: @escaping @Sendable () async -> Int32, whileMainThread wait: () -> Never
    ) -> Never {
        enter(namespace)
        Task.detached {
            await StartConditions.openTimers()
            exit(await body())
        }
        wait()
    }

    /// The same for a body that has something to put in order before a signal ends the process.
    ///
    /// The stream tells it of SIGHUP, SIGINT or SIGTERM; then it has a tenth of a second.
    static func run(
        in namespace: String?, _ body: @escaping @Sendable (_ interruption: AsyncStream<Int32>) async -> ExitStatus
    ) -> Never {
        enter(namespace)
        let signals = HeldSignals()
        let (interruption, interrupt) = AsyncStream.makeStream(of: Int32.self)
        Task.detached {
            await StartConditions.openTimers()
            let status = await body(interruption)
            exit(HeldSignals.last.map { 128 + $0 } ?? status.rawValue)
        }
        interrupt.yield(signals.next())
        signals.waitForAnother(atMost: 100)
        _exit(128 + (HeldSignals.last ?? SIGTERM))
    }

    private static func enter(_ namespace: String?) {
        guard let namespace else { return }
        do {
            try enterNetworkNamespace(namespace)
        } catch {
            end(with: error)
        }
    }

    /// Tells about an error and ends the process with its status.
    static func end(with error: ReachabilityError) -> Never {
        exit(report(error).rawValue)
    }

    /// Tells about an error and returns its status.
    ///
    /// - Parameter status: what it means here, if not what such errors usually mean.
    static func report(_ error: ReachabilityError, as status: ExitStatus? = nil) -> ExitStatus {
        DescriptorOutput.complain(quotingInput(in: error.description, words: CommandLine.arguments))
        return status ?? ExitStatus(error)
    }

    /// Tells about a failure of the output, unless it is one that nobody would care about, and returns its status.
    static func report(_ failure: OutputFailure) -> ExitStatus {
        guard case .refused(let errno) = failure else { return .yes }
        DescriptorOutput.complain("writing to standard output failed: \(errorText(errno)) (errno \(errno)).")
        return .outputFailed
    }

    /// Writes lines to standard output and returns the status to end with.
    ///
    /// A reader that left does not change a verdict.
    static func write(_ lines: [String], thenEndWith status: ExitStatus) -> ExitStatus {
        do {
            for line in lines { try DescriptorOutput.standard.write(line) }
        } catch .readerGone {
            return status
        } catch {
            return report(error)
        }
        return status
    }

    /// The value of an environment variable.
    static func environment(_ name: String) -> String? {
        getenv(name).map { String(cString: $0) }
    }

    /// The style for standard output.
    static var outputStyle: TextStyle {
        TextStyle(environment: environment, isTerminal: isatty(STDOUT_FILENO) == 1)
    }
}

/// SIGHUP, SIGINT and SIGTERM, taken by the main thread when it wants them instead of ending the process at once.
///
/// Signals that were ignored at the start, as under nohup(1) or in a shell's background, stay ignored.
/// Made before any other thread: those that are born later block them, too.
struct HeldSignals {
    private static let received = Atomic<Int32>(0)
    private var set = sigset_t()

    init() {
        sigemptyset(&set)
        for signal in [SIGHUP, SIGINT, SIGTERM] where !ProcessSetup.isIgnored(signal) { sigaddset(&set, signal) }
        pthread_sigmask(SIG_BLOCK, &set, nil)
    }

    /// The signal that came, if one did.
    static var last: Int32? {
        let number = received.load(ordering: .acquiring)
        return number == 0 ? nil : number
    }

    /// Waits for a signal (sigwait(3)).
    func next() -> Int32 {
        var set = set
        var number: Int32 = 0
        while sigwait(&set, &number) != 0 {}
        Self.received.store(number, ordering: .releasing)
        return number
    }

    /// Waits for another signal: whoever sends two is in a hurry.
    func waitForAnother(atMost milliseconds: Int) {
        var set = set
        var time = timespec()
        time.tv_nsec = milliseconds * 1_000_000
        // EINTR ends it as well: stopped and continued, it has waited long enough.
        _ = sigtimedwait(&set, nil, &time)
    }
}
