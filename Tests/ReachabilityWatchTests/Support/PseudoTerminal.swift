import Glibc
import TestSupport
import Testing

/// A terminal with the command in its foreground and the test at its keyboard (pty(7)).
struct PseudoTerminal {
    let pid: pid_t
    private let keyboard: Int32

    // Swift cannot import these: TIOCSPTLCK and TIOCGPTN of asm-generic/ioctls.h.
    private static let unlock: UInt = 0x4004_5431
    private static let getNumber: UInt = 0x8004_5430

    /// Starts the command with arguments.
    init(_ arguments: [String]) throws { try self.init(words: [WatchProcess.path] + arguments) }

    /// Starts a shell script whose `$0` is the command.
    init(script: String) throws { try self.init(words: ["/bin/sh", "-c", script, WatchProcess.path]) }

    private init(words: [String]) throws {
        keyboard = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)
        var number: Int32 = 0
        var isLocked: Int32 = 0
        guard keyboard >= 0, ioctl(keyboard, Self.unlock, &isLocked) == 0, ioctl(keyboard, Self.getNumber, &number) == 0 else {
            throw SystemFailure("open(/dev/ptmx)")
        }
        let screen = "/dev/pts/\(number)"
        pid = try spawn(words, hasTerminal: false) { actions in
            // Opened by a session leader, it becomes the session's terminal.
            posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, screen, O_RDWR, 0)
            posix_spawn_file_actions_adddup2(&actions, STDIN_FILENO, STDOUT_FILENO)
            posix_spawn_file_actions_adddup2(&actions, STDIN_FILENO, STDERR_FILENO)
        }
    }

    /// Types text.
    func type(_ text: String) {
        let bytes = Array(text.utf8)
        _ = write(keyboard, bytes, bytes.count)
    }

    /// Changes the terminal's size, which sends SIGWINCH to the foreground (tty_ioctl(4)).
    func resize(columns: UInt16) {
        var size = winsize(ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0)
        _ = ioctl(keyboard, UInt(TIOCSWINSZ), &size)
    }

    /// Stops the command by Ctrl-Z under a shell that says so and continues it; checks that no last line is left meanwhile, and
    /// returns when there is one again.
    ///
    /// - Parameter word: A word of the last line.
    func stopAndContinue(_ screen: inout TerminalScreen, _ word: String, _ location: SourceLocation = #_sourceLocation) throws {
        type("\u{1a}")
        // The line may change once more before the program stops.
        let text = read(until: "stopped 148")
        let stop = try #require(text.firstRange(of: "stopped 148"), sourceLocation: location).upperBound
        screen.write(String(text[..<stop]))
        #expect(!screen.rows.contains { $0.contains(word) }, "\(screen.rows)", sourceLocation: location)
        // It goes on at once.
        screen.write(String(text[stop...]))
        if !text[stop...].contains(word) { screen.write(read(until: word)) }
    }

    /// Reads the screen until it contains a text, or until no process has the terminal open.
    ///
    /// Kills a command that writes nothing for a minute.
    func read(until text: String? = nil) -> String {
        var screen = ""
        var buffer = [UInt8](repeating: 0, count: 4096)
        while text.map({ !screen.contains($0) }) ?? true {
            var request = pollfd(fd: keyboard, events: Int16(POLLIN), revents: 0)
            if poll(&request, 1, 60_000) == 0 { kill(pid, SIGKILL) }
            let count = Glibc.read(keyboard, &buffer, buffer.count)
            // EIO: the last process has closed the other side.
            guard count > 0 else { break }
            screen += String(decoding: buffer[..<count], as: UTF8.self)
        }
        return screen
    }

    /// Waits for the command's end; returns its exit code, or 1000 + the signal that killed it.
    func end() -> Int32 {
        defer { close(keyboard) }
        return awaitEnd(of: pid)
    }

    /// Closes the terminal, then waits for the command's end.
    func hangUp() -> Int32 {
        close(keyboard)
        return awaitEnd(of: pid)
    }
}
