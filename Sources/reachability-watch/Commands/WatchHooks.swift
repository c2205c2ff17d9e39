import CommandKit
import Glibc
import Reachability

extension WatchCommand {
    /// The time that the last hook and its processes have after a signal to this program.
    private static let endOfHooks = ChildSupervision.patience + .seconds(1)

    /// Runs the command with a program for each transition.
    func runHooks(_ program: [UInt8]) -> Never {
        if let failure = ProcessStart(words: [program]).obstacle {
            DescriptorOutput.printMessage("--exec: \(ForeignText(failure.description).terminal)")
            exit(failure.code)
        }
        // Two functions: the optimizer of Swift 6.3.1 fails on a single one (CopyPropagation reports an ownership error).
        switch Result(catching: { () throws(ReachabilityError) in
            try ChildSupervisor(leavesSignals: true, say: DescriptorOutput.printMessage)
        }) {
        case .success(let supervisor): runHooks(HookProgram(program, supervisor: supervisor), supervisor)
        case .failure(let error): Program.end(with: error)
        }
    }

    private func runHooks(_ program: HookProgram, _ supervisor: ChildSupervisor) -> Never {
        Program.run(in: target.namespacePath, endingWithin: Self.endOfHooks) { [self] signals in
            // After setns(2): a thread's children are in its namespace.
            let error = SystemThread.start(named: "hooks") { supervisor.supervise() }
            guard error == 0 else {
                DescriptorOutput.printMessage(
                    "--exec has no thread: \(errorText(error)); next: raise the limit of processes, e.g. `ulimit -u`")
                return .unknown
            }
            let hooks = HookRunner(
                program, scopes: target.scopes, timeLimit: hooks.timeLimit, say: DescriptorOutput.printMessage)
            let (ends, end) = AsyncStream.makeStream(of: Int32.self)
            Task {
                for await signal in signals { end.yield(signal) }
            }
            // A reader that leaves ends the watch like a signal.
            ReaderWatch.start { end.yield(0) }
            return Program.report(await session(hooks).run(until: ends))
        }
    }
}
