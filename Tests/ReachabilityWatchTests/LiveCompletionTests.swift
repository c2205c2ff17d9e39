import Testing

@testable import CommandKit
@testable import reachability_watch

struct LiveCompletionTests {
    @Test(arguments: ["eth0", "wlp2s0", "br-lan", "eth0.100", "0", "tun_a", "veth1a@b", "a+b"])
    func plainNamesAreOffered(_ name: String) {
        #expect(LiveCompletion.plain([name]) == [name])
    }

    @Test(arguments: [
        "$(reboot)", "`reboot`", "a;reboot", "'a'", "\"a\"", "a\\b", "a|b", "a&b", "a b", "a\nb", "~root", "*", "a*", "a?", "[a]",
        "{a,b}", "#a",
        "!1", "-a", "=ls", "%1", "@a", ".", "..", "", "e\u{1b}[31m0", "a\u{202e}b", "größe", "a\u{fffd}", "a:b", "a/b", "a,b",
        "a<b",
    ])
    func namesThatMeanSomethingToAShellAreLeftOut(_ name: String) {
        #expect(LiveCompletion.plain(["lo", name, "eth0"]) == ["lo", "eth0"])
    }

    @Test func interfacesFollowThePercentSign() {
        #expect(
            LiveCompletion.destinations("fe80::1%", interfaces: ["lo", "$(reboot)", "eth0"]) == ["fe80::1%lo", "fe80::1%eth0"])
        #expect(LiveCompletion.destinations("fe80::1%et", interfaces: ["eth0"]) == ["fe80::1%eth0"])
        #expect(LiveCompletion.destinations("--to=fe80::1%et", interfaces: ["eth0"]) == ["fe80::1%eth0"])
        #expect(LiveCompletion.destinations("fe80::1", interfaces: ["eth0"]).isEmpty)
    }

    @Test func theOtherProgramAnswersForItsCommands() {
        #expect(ServiceProgram.isNamed(in: ["---completion", "queue", "add", "--", "--to", "1", "3", "x", "fe8"]))
        #expect(ServiceProgram.isNamed(in: ["fleet"]) && ServiceProgram.isNamed(in: ["help", "fleet"]))
        #expect(!ServiceProgram.isNamed(in: ["---completion", "watch", "--", "--to", "1", "5", "x", "queue"]))
    }
}
