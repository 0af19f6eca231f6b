#!/usr/bin/env python3
"""Makes first inputs for the fuzz targets that libFuzzer would take long to find by itself: seeds.py FOLDER"""
import pathlib, struct, sys
root = pathlib.Path(sys.argv[1])
def put(target, name, data):
    (root/target).mkdir(parents=True, exist_ok=True); (root/target/name).write_bytes(data)
proc = lambda h=b"node": struct.pack("<I", len(h))+h+struct.pack("<qQ", 7, 8)
blob = lambda b: struct.pack("<I", len(b))+b
put("control_messages","hello", b"\x01"+struct.pack("<iiI",1,3,1000)+proc())
put("control_messages","gather", b"\x02"+struct.pack("<QI",4,5)+blob(b"part"))
put("control_messages","announce", b"\x03\x08"+blob(b"late"))
put("control_messages","goodbye", b"\x04")
put("control_messages","welcome", b"\x11"+struct.pack("<i",0)+proc()+struct.pack("<I",2)+proc()+proc())
put("control_messages","gathered", b"\x12"+struct.pack("<QI",4,2)+blob(b"")+blob(b"abc"))
put("control_messages","failure", b"\x13\x06"+struct.pack("<i",2)+blob(b"gone"))
put("control_messages","closing", b"\x14")
hello=lambda r,n: bytes([0,1,r,n,100])
put("rendezvous","all", hello(0,2)+hello(1,2)+bytes([6,1,0,3])+b"abc"+bytes([1,9])+bytes([6,1,1,3])+b"abc"+bytes([1,9])+bytes([4,1,0,4,1,0]))
put("rendezvous","late", hello(0,3)+bytes([0,255,1,3,1])+bytes([3,1,0]))
put("handshake","acceptor", bytes([0,7])+b"horing"+bytes(60))
put("handshake","sealed", bytes([2,9,5])+b"hello"+bytes([3])+b"abc"+bytes(2))
put("handshake","altered", bytes([2+3*16,9,5])+b"hello"+bytes([7,0]))
put("control_channel","one", bytes([1,4])+b"\x00abc"+bytes([1,4])+b"\x01abc"+bytes([1,3])+b"\x00xy")
put("control_channel","raw", bytes([0,4])+b"abcd")
ok="cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\ncmd=my_kvsname kvsname=k\ncmd=put_result rc=0\ncmd=barrier_out rc=0\ncmd=get_result rc=0 value=abc\ncmd=finalize_ack rc=0\n"
put("pmi1","good", ok.encode()); put("pmi1","bad", b"cmd=response_to_init rc=1\n")
iface=lambda n,a,p,lo=0,v6=0: a.ljust(16,b"\0")+bytes([v6,lo,p])+bytes(5)+n.ljust(16,b"\0")
pub=lambda *i: struct.pack("<IBBHQ16s",0x4b534f48,len(i),1,4711,9,b"i"*16)+b"".join(i)
a=pub(iface(b"eth0",b"\x0a\0\0\1",24),iface(b"lo",b"\x7f\0\0\1",8,1)); b=pub(iface(b"eth1",b"\x0a\0\0\2",24),iface(b"ib0",b"\xfd"+b"\0"*14+b"\2",64,0,1))
put("published","two", struct.pack("<H",len(a))+a+b)
put("published","one", struct.pack("<H",len(b))+b)
greet=struct.pack("<IIHHIII",1,0,0,1,2,4,128)
put("acceptor","proven", b"\1"+greet); put("acceptor","stranger", b"\0GET / HTTP/1.0\r\n\r\n"); put("acceptor","short", b"\1"+greet[:15])
frame=lambda size,ch,kind,seq,credit: struct.pack("<IHHQQQ",size,ch,kind,1,seq,credit)+bytes(size)
say=lambda d: bytes([0,len(d)])+d
put("socket_link","data", say(frame(8,0,1,0,0))+say(frame(0,1,2,0,0))+bytes([6,7]))
put("socket_link","answer", bytes([5+16,7,5+8+16,7])+say(frame(0,0,2,0,1))+say(frame(4,1,1,0,1))+say(frame(0,0,5,0,0)))
put("socket_link","short", bytes([4,16,1,0,0])+bytes(16)+bytes([6,4,16,1,1,0])+bytes(16)+bytes([6,247]))
state=lambda *n: bytes(n)
put("socket_link","again", bytes([5+16,7,5+16,7])+bytes([207])+state(1,0,0,0)+bytes([7,5+16,7])+say(frame(0,0,2,0,2)))
put("socket_link","again_all", bytes([5+16,207])+state(0,1,0,0)+bytes([207])+state(1,0,0,0)+say(frame(8,0,1,0,1))+bytes([6,247]))
put("socket_link","again_lies", bytes([5+16,207])+state(0,2,0,0))
put("shm_address","good", b"horingS2"+b"boot".ljust(40,b"\0")+struct.pack("<QQ16sii",1,2,b"n"*16,3,0)+b"horing-job-00-3".ljust(112,b"\0"))
up=bytes([3,0,4,0,5,0,6,0,5,0,6,0,7,0,7,0])
put("shm_files","plain", up)
put("shm_files","row", bytes([4,0])+bytes([1,0,4])+b"xxxx"+up)
put("shm_files","head", bytes([3,0,4,0,6,0,5,0,6,0,2,64,8])+bytes([255]*8)+bytes([7,0,6,0]))
put("shm_files","rank", bytes([0,0,8])+b"notmagic"+up)
put("slot_queue","plain", bytes([6+8*8,7,6+8*3,7,6,7,6,6,6,6,6,7]))
put("slot_queue","lies", bytes([6,4])+struct.pack("<I",65)+bytes([7,0])+struct.pack("<Q",99)+bytes([7,1])+struct.pack("<Q",99)+bytes([6,5,7]))
port=lambda gid,kind,name: gid+struct.pack("<IHBBBBBB",100000,7,5,kind,120,kind==2,1,0)+name.ljust(28,b"\0")
rdma=lambda control,*p: struct.pack("<IBBH",0x42565248,len(p),1,len(control))+b"".join(p)+control
roce=lambda net,host: port(b"\0"*10+b"\xff\xff\x0a\x63"+bytes([net,host]),2,b"rxe0 port 1")
ib=lambda net,host: port(b"\xfe\x80"+b"\0"*5+bytes([net])+b"\0"*7+bytes([host]),0,b"mlx5_0 port 1")
a=rdma(b"control",roce(0,1),ib(0,1)); b=rdma(b"",ib(0,2),roce(1,2),roce(0,2))
put("verbs_published","two", struct.pack("<H",len(a))+a+b); put("verbs_published","one", struct.pack("<H",len(b))+b)
up=bytes([1,0,3,0,3,1,2])
data=lambda slot,ch,number: bytes([4])+struct.pack("<HBI",ch*192*4+slot*192+40,88,ch<<27|number)
lost=lambda path: bytes([3+8,path])+bytes(4)+bytes([1])+b"x"
put("verbs_link","data", up+data(0,0,0)+data(1,0,1)+data(0,1,0)+bytes([5,0,5,0,5,1,5,2,5,66]))
put("verbs_link","lost", up+bytes([5,2,5,3])+lost(0)+bytes([5,2])+data(0,0,0)+lost(1)+bytes([7,7+16]))
put("verbs_link","again", up+lost(0)+bytes([7+16,3+16,0,0,3,0,5,2])+lost(0)+bytes([7+16]))
put("verbs_link","pulled", up+bytes([6,5,2])+lost(0)+bytes([6+8,7+16,3+16,0,0,3,0,5,2,5,3]))
put("verbs_link","goodbye", up+data(0,0,0)+bytes([3+24,0,1,0,0,0,5,0,5,0]))
put("verbs_devices","list", b"=mlx5_0:2,rxe"); put("verbs_devices","except", b"^mlx5_1")
head=struct.pack("<IBBH",0x44496f68,2,1,0)+b"j"*16+b"k"*32
put("unique_id","v4", head+b"\x04\x0a\0\0\1"+struct.pack("<H",4711))
put("unique_id","v6", head+b"\x06"+b"\xfe"*16+struct.pack("<H",4711))
put("unique_id","scope", head+b"\x16"+b"\xfe\x80"+b"\0"*13+b"\1"+struct.pack("<HI",4711,7))
put("unique_id","hex", b"00"*128)
golden=pathlib.Path(__file__).resolve().parent.parent/"schedule"/"golden"
for f in (sorted(golden.glob("*.txt")) if golden.is_dir() else []):
    put("schedule_text", f.stem, f.read_bytes())
env=b"""HORING_TESTS_WINDOW=4
HORING_ALGO=ring
HORING_TRANSPORTS=shm,socket
HORING_ROOT=[::1]:4711
HORING_SOCKET_IFNAME=^=eth0,ib
RANK=1
WORLD_SIZE=2
LOCAL_RANK=0
SLURM_JOB_NODELIST=rack[1-2,4]node[01-04],other
MASTER_ADDR=node-a:99999
"""
gpu=lambda why=b"", n=1, mps=0: blob(why)+bytes([n])*16+bytes([mps])+struct.pack("<III",64,32,2)+blob(b"address")+blob(b"")
put("gpu_offer","memory", gpu()+b"\1"+bytes(range(64))); put("gpu_offer","none", gpu()+b"\0"); put("gpu_offer","shared", gpu(n=0,mps=1)+b"\0"); put("gpu_offer","trouble", gpu(b"no kernels")+b"\0")
identity=b"".join(blob(t) for t in (b"node",b"boot",b"",b"",b"top/leaf0"))+struct.pack("<5Qq",1,2,3,4,9,5)+blob(b"00000001,0000ffff")+struct.pack("<iQ",1500,7)
put("host_identity","good", identity+b"\0"); put("host_identity","gpu", identity+b"\1"+b"u"*16+b"\1"); put("environment","all", env); put("environment","bad", b"HORING_TESTS_SLOTS=99999999999999999999\nRANK=-1\nWORLD_SIZE=1\nX=a[1-2\nY=]:[\n")
machines=pathlib.Path(__file__).resolve().parent.parent/"topology"/"machines"
for f in (sorted(machines.glob("*.xml")) if machines.is_dir() else []):
    if f.stat().st_size < 4000: put("topology_text", f.stem, f.read_bytes())
put("topology_text","hwloc", b'<topology version="2.0"><object type="Machine"><object type="Package" gp_index="1"><object type="NUMANode" os_index="0" cpuset="0x3"/><object type="Bridge" bridge_type="0-1"><object type="PCIDev" gp_index="7" pci_busid="0000:02:00.0" pci_type="0302 [10de:1db8]" pci_link_speed="15.7"/><object type="PCIDev" gp_index="8" pci_busid="0000:03:00.0" pci_type="0302 [10de:1db8]"/></object></object></object><distances2 name="NVLinkBandwidth"><indexes>7 8</indexes><u64values>0 50000 50000 0</u64values></distances2></topology>')
put("topology_text","synthetic", b"pack:2 numa:2 core:2 pu:1"); put("topology_text","bomb", b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>')
node=lambda kind,parent,name,bus=b"": struct.pack("<Bi",kind,parent)+blob(name)+struct.pack("<QQ",32000000,25000000)+blob(bus)
place=lambda home,*nodes: struct.pack("<I",1+len(nodes))+node(0,-1,b"")+b"".join(nodes)+struct.pack("<i",home)
link=lambda kind,name,speed: bytes([kind])+blob(name)+struct.pack("<Q",speed)
put("rank_place","numa", place(2,node(1,0,b"0"),node(2,1,b"1"),node(5,2,b"eth0"))+struct.pack("<I",0)); put("rank_place","nowhere", place(0)+struct.pack("<I",0))
put("slurm_topology","leaf", b"n07.example\n# room\nSwitchName=s0 Nodes=x,n[01-16,20]\nSwitchName=t Switches=s0\n")
put("selection_text","table", b"# rows\nall_reduce 1 2-4 <=1 4K one_shot\nall_gather 2 3- >1 1M ho_direct\n* 2- * * * ho_ring\n")
put("selection_text","machine", b"nodes = 2\nranks_per_node = 4\ninter_latency_us = 1.5\nnic = node\nlinks = inside\ncores = 2 # all\n")
put("selection_text","forced", b"all_reduce:0-64K=direct,64K-=ho_ring;reduce_scatter=ring")
conf=b"# rack\nSwitchName=l0 Nodes=n[01-16,20],x7 LinkSpeed=1\nswitchname=l1 nodes=r[1-2]n[3-4]-ib\r\nSwitchName=s Switches=l[0-1]\nSwitchName=t Switches=s,t\n"
for host in (b"n07", b"r2n4-ib", b"x7.cluster", b"n1"): put("slurm_topology", host.decode().replace(".","_"), host+b"\n"+conf)
bus=b"0000:3b:00.0"
put("rank_place","gpu", place(2,node(3,0,b"0000:01:00.0"),node(4,1,bus,bus),node(5,1,b"mlx5_0"),node(6,0,b"NVSwitch"))
    +struct.pack("<I",2)+link(4,b"0000:5e:00.0",50000000)+link(6,b"NVSwitch",300000000))
