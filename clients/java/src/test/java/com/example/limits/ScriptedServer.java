package com.example.limits;

import io.envoyproxy.envoy.extensions.common.ratelimit.v3.RateLimitDescriptor;
import io.envoyproxy.envoy.service.ratelimit.v3.RateLimitRequest;
import io.envoyproxy.envoy.service.ratelimit.v3.RateLimitResponse;
import io.envoyproxy.envoy.service.ratelimit.v3.RateLimitResponse.Code;
import io.envoyproxy.envoy.service.ratelimit.v3.RateLimitResponse.DescriptorStatus;
import io.envoyproxy.envoy.service.ratelimit.v3.RateLimitResponse.RateLimit;
import io.envoyproxy.envoy.service.ratelimit.v3.RateLimitServiceGrpc;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.Status;
import io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.StreamObserver;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.OptionalLong;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** A server that answers as the domain of a check says, and what Limits makes of its answers. */
final class ScriptedServer extends RateLimitServiceGrpc.RateLimitServiceImplBase implements ServerInterceptor {
  private static final Metadata.Key<String> TOKEN = Metadata.Key.of("x-headgate-token", Metadata.ASCII_STRING_MARSHALLER);
  /** More than any answer takes that comes. */
  private static final Duration PATIENCE = Duration.ofSeconds(30);

  private volatile RateLimitRequest heard;
  private volatile String token;

  private ScriptedServer() {}

  @Override
  public <Q, A> ServerCall.Listener<Q> interceptCall(ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> next) {
    token = headers.get(TOKEN);
    return next.startCall(call, headers);
  }

  @Override
  public void shouldRateLimit(RateLimitRequest request, StreamObserver<RateLimitResponse> answer) {
    heard = request;
    String domain = request.getDomain();
    if (domain.equals("silent")) {
      return;
    }
    if (domain.startsWith("code ")) {
      answer.onError(Status.Code.valueOf(domain.substring(5)).toStatus().withDescription("because").asRuntimeException());
      return;
    }
    answer.onNext(response(domain));
    answer.onCompleted();
  }

  private static RateLimitResponse response(String domain) {
    RateLimitResponse.Builder response = RateLimitResponse.newBuilder().setOverallCode(domain.equals("denied") ? Code.OVER_LIMIT : Code.OK);
    if (domain.equals("nothing")) {
      return response.build();
    }
    DescriptorStatus.Builder status = DescriptorStatus.newBuilder();
    if (!domain.equals("unmatched")) {
      status.setCurrentLimit(RateLimit.newBuilder().setRequestsPerUnit(-1)).setLimitRemaining(-1); // the most that fits, unsigned
      status.getDurationUntilResetBuilder().setSeconds(1).setNanos(500_000_000);
    }
    return response.addStatuses(status).build();
  }

  public static void main(String[] args) throws Exception {
    ScriptedServer script = new ScriptedServer();
    Server server =
        NettyServerBuilder.forAddress(new InetSocketAddress("127.0.0.1", 0)).addService(script).intercept(script).build().start();
    String target = "127.0.0.1:" + server.getPort();
    try {
      decisions(target);
      refusals(target);
      script.whatIsSent(target);
      manyThreads(target);
      afterClose(target);
    } finally {
      server.shutdownNow();
    }
  }

  private static void decisions(String target) {
    OptionalLong most = OptionalLong.of(4_294_967_295L);
    Duration reset = Duration.ofMillis(1500);
    try (Limits limits = new Limits(target, "", PATIENCE, true)) {
      equal(limits.check("allowed", Map.of("user", "1"), 1), new Limits.Decision(true, most, reset, Status.Code.OK));
      equal(limits.check("denied", Map.of("user", "1"), 1), new Limits.Decision(false, most, reset, Status.Code.OK));
      for (String domain : List.of("nothing", "unmatched")) {
        equal(limits.check(domain, Map.of("user", "1"), 1), unknown(true, Status.Code.OK));
      }
    }
    // Without an answer the last argument of the constructor decides.
    for (boolean passes : new boolean[] {true, false}) {
      try (Limits limits = new Limits(target, "", Duration.ofMillis(50), passes)) {
        equal(limits.check("silent", Map.of("user", "1"), 1), unknown(passes, Status.Code.DEADLINE_EXCEEDED));
      }
    }
  }

  private static void refusals(String target) {
    for (boolean passes : new boolean[] {true, false}) {
      try (Limits limits = new Limits(target, "", PATIENCE, passes)) {
        for (Status.Code code : Status.Code.values()) {
          switch (code) {
            case OK -> {}
            case INVALID_ARGUMENT, PERMISSION_DENIED, ALREADY_EXISTS -> equal(refusal(limits, code), "because");
            default -> equal(limits.check("code " + code, Map.of("user", "1"), 1), unknown(passes, code));
          }
        }
      }
    }
  }

  private static String refusal(Limits limits, Status.Code code) {
    try {
      return "decided: " + limits.check("code " + code, Map.of("user", "1"), 1);
    } catch (IllegalArgumentException e) {
      return e.getMessage();
    }
  }

  private void whatIsSent(String target) {
    Map<String, String> entries = new LinkedHashMap<>();
    entries.put("z", "é");
    entries.put("a", "");
    try (Limits limits = new Limits(target, "hgct_1", PATIENCE, true)) {
      limits.check("allowed", entries, 3);
    }
    RateLimitDescriptor.Builder descriptor = RateLimitDescriptor.newBuilder();
    descriptor.addEntriesBuilder().setKey("z").setValue("é");
    descriptor.addEntriesBuilder().setKey("a").setValue("");
    equal(heard, RateLimitRequest.newBuilder().setDomain("allowed").addDescriptors(descriptor).setHitsAddend(3).build());
    equal(token, "hgct_1");
    try (Limits limits = new Limits(target, "", PATIENCE, true)) {
      limits.check("allowed", entries, 1);
    }
    equal(token, null);
  }

  private static void manyThreads(String target) throws Exception {
    ExecutorService threads = Executors.newFixedThreadPool(8);
    try (Limits limits = new Limits(target, "", PATIENCE, true)) {
      List<Future<Limits.Decision>> asked = new ArrayList<>();
      for (int i = 0; i < 64; i++) {
        String domain = i % 2 == 0 ? "allowed" : "denied";
        asked.add(threads.submit(() -> limits.check(domain, Map.of("user", "1"), 1)));
      }
      for (int i = 0; i < 64; i++) {
        equal(asked.get(i).get().allowed(), i % 2 == 0);
      }
    } finally {
      threads.shutdown();
    }
  }

  /** Whoever asks then has no answer. */
  private static void afterClose(String target) {
    Limits limits = new Limits(target, "", PATIENCE, false);
    limits.close();
    equal(limits.check("allowed", Map.of("user", "1"), 1), unknown(false, Status.Code.UNAVAILABLE));
  }

  private static Limits.Decision unknown(boolean allowed, Status.Code code) {
    return new Limits.Decision(allowed, OptionalLong.empty(), Duration.ZERO, code);
  }

  private static void equal(Object got, Object want) {
    if (!Objects.equals(got, want)) {
      throw new AssertionError("got " + got + ", want " + want);
    }
  }
}
