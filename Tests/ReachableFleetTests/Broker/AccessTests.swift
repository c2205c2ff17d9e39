#if MQTT
import Foundation
import TestSupport
import Testing

@testable import ReachableFleet

/// The shipped example of mosquitto's configuration, at a real broker: who may connect, and who may write what.
@Suite(.timeLimit(.minutes(2)), .serialized, .blocking, .enabled(if: hasBrokers, "run them with Scripts/brokers"))
struct AccessTests {
    /// The certificates and the broker that uses them.
    private final class Site: Sendable {
        let folder: TemporaryFolder
        let broker: TestBroker

        init() throws {
            folder = try TemporaryFolder()
            let maker = Documents.root.appendingPathComponent("Packaging/mosquitto/make-certificates").path
            try Process([maker, "localhost", "nas", "kiosk", "operator"], in: folder.path).succeed()
            // An authority that the broker does not know.
            try Process([maker, "localhost", "nas"], in: folder.makeFolder("other")).succeed()
            func example(_ name: String) throws -> String { try Documents.text("Packaging/mosquitto/\(name)") }
            let text =
                try example("mosquitto.conf").replacing("/etc/mosquitto/fleet", with: "FOLDER")
                .replacing("listener 8883", with: "listener PORT 127.0.0.1") + "log_dest stderr\n"
            var files = ["acl": Data(try example("acl").utf8)]
            for name in ["ca.pem", "broker.pem", "broker.key"] {
                files[name] = try Data(contentsOf: folder.url.appendingPathComponent(name))
            }
            broker = try TestBroker(.mosquitto, configuration: text, files: files)
        }

        /// Starts a member with the certificate of a name.
        func probe(
            _ node: String, of site: String = "home", as name: String? = nil, host: String = "localhost", ca: String = "ca.pem",
            folder other: String = ""
        ) throws -> ProbeMember {
            var options = ["ca=\(folder.path)/\(ca)"]
            if let name = name ?? Optional(node) {
                let base = "\(folder.path)/\(other)/\(name)"
                options += ["cert=\(base).pem", "key=\(base).key"]
            }
            return try ProbeMember("mqtts://\(host):\(broker.port)", site, node, options)
        }

        func bareProbe(_ node: String, scheme: String = "mqtts") throws -> ProbeMember {
            let options = scheme == "mqtts" ? ["ca=\(folder.path)/ca.pem"] : []
            return try ProbeMember("\(scheme)://localhost:\(broker.port)", "home", node, options)
        }
    }

    /// Returns the text of the failure that a member logs.
    private func failure(_ probe: ProbeMember) -> String {
        defer { probe.kill() }
        return probe.line("log") ?? "none"
    }

    @Test func nodesWriteBelowTheirOwnNamesOnly() throws {
        let site = try Site()
        let (nas, kiosk) = (try site.probe("nas"), try site.probe("kiosk"))
        #expect(nas.line("current")?.contains("nas=online") == true)
        #expect(kiosk.line("current")?.contains("kiosk=online") == true)
        // mosquitto confirms what it drops: no one sees the trigger, and the node is still there. The kiosk is told.
        kiosk.request("trigger refused")
        #expect(kiosk.line("trigger refused failed")?.contains("let this client write reach/v1/home/trigger/refused") == true)
        kiosk.request("forget nas")
        #expect(kiosk.line("forget nas failed")?.contains("let this client write reach/v1/home/nas/status") == true)
        let watcher = try site.probe("-", as: "operator")
        #expect(watcher.line("current")?.contains("nas=online") == true)
        watcher.request("trigger allowed")
        #expect(nas.line("trigger") == "trigger allowed")
        #expect(kiosk.line("trigger") == "trigger allowed")
        for probe in [nas, kiosk, watcher] { probe.kill() }
    }

    /// mosquitto confirms what it drops, a will included.
    @Test func wordsForOtherNamesAndSitesAreDropped() throws {
        let site = try Site()
        #expect(failure(try site.probe("nas", as: "kiosk")).contains("shows them to no one"))
        #expect(failure(try site.probe("nas", of: "office")).contains("shows them to no one"))
        let watcher = try site.probe("-", as: "operator")
        #expect(watcher.line("current") == "current ")
        watcher.kill()
    }

    @Test func strangersAreRefusedWithTheReason() throws {
        let site = try Site()
        // Of the alert, or of the reset that overtook it.
        let certificate = "this client's certificate"
        #expect(failure(try site.bareProbe("nas")).contains(certificate))
        #expect(failure(try site.probe("nas", folder: "other")).contains(certificate))
        #expect(failure(try site.probe("nas", ca: "other/ca.pem")).contains("is not trusted"))
        #expect(failure(try site.probe("nas", host: "127.0.0.1")).contains("has another name"))
        #expect(failure(try site.probe("nas", as: "missing")).contains("cannot be read"))
        #expect(failure(try site.bareProbe("nas", scheme: "mqtt")).contains("closed the connection before it was accepted"))
    }

    @Test func operatorForgetsANode() throws {
        let site = try Site()
        let nas = try site.probe("nas")
        #expect(nas.line("current")?.contains("nas=online") == true)
        let watcher = try site.probe("-", as: "operator")
        #expect(watcher.line("current")?.contains("nas=online") == true)
        nas.kill()
        #expect(watcher.line("node nas lost") != nil)
        watcher.request("forget nas")
        #expect(watcher.line("removed nas") != nil)
        watcher.kill()
    }

    @Test func passwordsComeFromAFileAndAreNeverShown() throws {
        let folder = try TemporaryFolder()
        let (right, wrong) = (try folder.write("flabbergast\n", to: "right"), try folder.write("gobsmacked\n", to: "wrong"))
        let passwords = folder.url.appendingPathComponent("passwords")
        try Process(["/usr/bin/mosquitto_passwd", "-b", "-c", passwords.path, "kiosk", "flabbergast"]).succeed()
        let text = "listener PORT 127.0.0.1\nallow_anonymous false\npassword_file FOLDER/passwords\nlog_dest stderr\n"
        let broker = try TestBroker(.mosquitto, configuration: text, files: ["passwords": try Data(contentsOf: passwords)])
        let member = try ProbeMember(broker.url, "site", "kiosk", ["user=kiosk", "password=\(right)"])
        #expect(member.line("current")?.contains("kiosk=online") == true)
        let title = readFile("/proc/\(member.identifier)/cmdline")
        #expect(!title.contains("flabbergast"))
        member.kill()
        let refused = failure(try ProbeMember(broker.url, "site", "kiosk", ["user=kiosk", "password=\(wrong)"]))
        #expect(refused.contains("refuses the user name or password") || refused.contains("does not authorise this client"))
        #expect(refused.contains("; next: ") && !refused.contains("gobsmacked"))
        let missing = failure(try ProbeMember(broker.url, "site", "kiosk", ["user=kiosk", "password=\(folder.path)/none"]))
        #expect(missing.contains("cannot be read"))
    }
}
#endif
