import CommandKit
import Glibc
import Reachability

extension WatchCommand {
    /// Returns the supervisor of a program for each transition; ends the process if the program cannot be executed.
    ///
    /// Call it before any other thread exists.
    func hookSupervisor(_ program: [UInt8]) -> ChildSupervisor {
        if let failure = ProcessStart(words: [program]).obstacle {
            DescriptorOutput.printMessage("--exec: \(ForeignText(failure.description).terminal)")
            exit(failure.code)
        }
        switch Result(catching: { () throws(ReachabilityError) in
            try ChildSupervisor(leavesSignals: true, say: DescriptorOutput.printMessage)
        }) {
        case .success(let supervisor): return supervisor
        case .failure(let error): Program.end(with: error)
        }
    }

    /// Returns the runner of the programs; `nil` with a message if it cannot have a thread.
    ///
    /// Call it after setns(2): a thread's children are in its namespace.
    func hookRunner(_ program: HookProgram, _ supervisor: ChildSupervisor) -> HookRunner? {
        let error = SystemThread.start(named: "hooks") { supervisor.supervise() }
        guard error == 0 else {
            DescriptorOutput.printMessage(
                "--exec has no thread: \(errorText(error)); next: raise the limit of processes, e.g. `ulimit -u`")
            return nil
        }
        return HookRunner(program, scopes: target.scopes, timeLimit: hooks.timeLimit, say: DescriptorOutput.printMessage)
    }
}
