import ArgumentParser
import CommandKit
import FoundationEssentials
import Glibc
import Reachability

/// The process of one attempt, which a worker starts (``AttemptProcess``): runs the command and answers with its failure.
struct AttemptCommand: ParsableCommand {
    static let name = "queue-attempt"
    static let configuration = CommandConfiguration(
        commandName: name, abstract: "Runs one attempt for a worker; started by `queue run` only.", shouldDisplay: false)

    /// The longest message: a stored command is smaller.
    private static let longestMessage = 16 << 20

    func run() throws {
        for descriptor in [AttemptProcess.socket, AttemptProcess.lock] where fcntl(descriptor, F_SETFD, FD_CLOEXEC) < 0 {
            throw ValidationError("\(Self.name) is started by `reachability-watch queue run` only; next: run that")
        }
        guard let message = Pipe.readFrame(from: AttemptProcess.socket, atMost: Self.longestMessage),
            let command = try? JSONDecoder().decode(QueuedCommand.self, from: Data(message))
        else { Self.exit() }
        // Without a terminal the command has a process group of its own, and the worker's Ctrl-C does not reach it.
        setsid()
        if let failure = Self.enter(command) {
            Self.answer(failure)
            Self.exit()
        }
        switch Result(catching: { () throws(ReachabilityError) in try ChildSupervisor(say: DescriptorOutput.printMessage) }) {
        case .success(let supervisor): Self.run(command, supervisor)
        case .failure(let error): Program.end(with: error)
        }
    }

    private static func run(_ command: QueuedCommand, _ supervisor: ChildSupervisor) -> Never {
        OutputLimit.watch(STDOUT_FILENO)
        SystemThread.start {
            // The worker writes nothing more: this ends when the worker hangs up or dies.
            _ = Pipe.readAll(from: AttemptProcess.socket)
            kill(getpid(), SIGTERM)
        }
        let child = ChildCommand(ProcessStart(words: command.words.map(\.bytes)), supervisor: supervisor)
        Task.detached {
            do throws(ChildFailure) {
                try await child.run()
                answer(nil)
            } catch {
                answer(error)
            }
            Self.exit()
        }
        supervisor.supervise()
    }

    /// Takes on the command's surroundings; returns the failure if its directory cannot be entered.
    private static func enter(_ command: QueuedCommand) -> ChildFailure? {
        _ = umask(mode_t(command.umask))
        clearenv()
        for (name, value) in command.environment { setenv(name, value.cString, 1) }
        guard chdir(command.directory.cString) != 0 else { return nil }
        return ChildFailure(cause: .noDirectory(command.directory.text, errno))
    }

    private static func answer(_ failure: ChildFailure?) {
        // Also at the end of the attempt's output, where `queue log` shows it.
        if let failure { DescriptorOutput.printMessage(ForeignText(failure.description).terminal) }
        guard let message = try? JSONEncoder().encode(AttemptAnswer(failure: failure)) else { return }
        _ = Pipe.write(Array(message), to: AttemptProcess.socket)
    }

    private static func exit() -> Never { _exit(0) }
}
