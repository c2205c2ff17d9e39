import Reachability
import ReachableJobs
import Testing

struct ScopeTextTests {
    @Test func everyPropertySurvives() throws {
        var scopes: [Scope] = [.internet, .host("example.org"), .host("a b%=ü"), .address(try #require(IPAddress("2001:db8::1")))]
        var full = Scope.host("example.org")
        (full.mark, full.uid, full.interface) = (7, 1000, "wg 0%")
        (full.transport, full.port) = (.udp, 53)
        scopes.append(full)
        for scope in scopes { #expect(ScopeText.scope(from: ScopeText.text(of: scope)) == scope) }
        #expect(ScopeText.text(of: full) == "host=example.org interface=wg%200%25 mark=7 uid=1000 protocol=17 port=53")
    }

    @Test(arguments: ["", "example.org", "internet ", "internet port=x", "internet colour=red", "host=%f", "host=%ff"])
    func unreadableTextsAreNoScope(text: String) {
        #expect(ScopeText.scope(from: text) == nil)
    }
}
