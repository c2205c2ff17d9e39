/// One change of the network and its command.
enum NetworkChange: Hashable, Sendable, CustomStringConvertible {
    /// A line for `ip -batch` in the machine's namespace; the option selects the family if the line does not.
    case near(String, option: String = "")
    /// A line for `ip -batch` at the other end of the cables.
    case far(String)
    /// A sysctl of the machine's namespace, as a path below /proc/sys/net.
    case sysctl(String, Int)
    /// Time in which lifetimes end.
    case pause(milliseconds: Int)

    /// True if the change concerns IPv4: all but those of the other family do.
    var isIPv4: Bool { !isOnly("-6", "ipv6", ["::"]) }
    var isIPv6: Bool { !isOnly("-4", "ipv4", ["/24", "/16", "/32"]) }

    private func isOnly(_ family: String, _ folder: String, _ signs: [String]) -> Bool {
        switch self {
        case .near(let line, let option): option == family || (option.isEmpty && signs.contains { line.contains($0) })
        case .sysctl(let path, _): path.hasPrefix(folder)
        case .far, .pause: false
        }
    }

    /// A command for a shell, with namespaces called `near` and `far`.
    var description: String {
        switch self {
        case .near(let line, let option): "ip -n near \(option.isEmpty ? "" : option + " ")\(line)"
        case .far(let line): "ip -n far \(line)"
        case .pause(let milliseconds): "sleep \(Double(milliseconds) / 1000)"
        case .sysctl(let path, let value): "ip netns exec near sh -c 'echo \(value) > /proc/sys/net/\(path)'"
        }
    }
}

extension [NetworkChange] {
    /// Returns a shell script for the machine's namespace: one `ip` for as many changes in a row as it accepts.
    ///
    /// Failing changes are ignored: they are generated without knowing the state.
    func script(near: String, far: String) -> String {
        var script = ""
        var open: String?
        func batch(_ options: String, _ line: String) {
            if open != options {
                close()
                script += "ip\(options.isEmpty ? "" : " ")\(options) -force -batch - >/dev/null 2>&1 <<'END'\n"
                open = options
            }
            script += line.replacing(" netns far", with: " netns \(far)").replacing(" netns near", with: " netns \(near)") + "\n"
        }
        func close() {
            if open != nil { script += "END\n" }
            open = nil
        }
        for change in self {
            switch change {
            case .near(let line, let option): batch(option, line)
            case .far(let line): batch("-n \(far)", line)
            case .pause:
                close()
                script += "\(change)\n"
            case .sysctl(let path, let value):
                close()
                script += "{ echo \(value) > /proc/sys/net/\(path); } 2>/dev/null\n"
            }
        }
        close()
        return script
    }
}
