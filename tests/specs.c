/* SPECs to try: see specs.h. */
#include "specs.h"

#include "position/position.h"

static const char *const variants[] = {
    "learned:beyond=clamp,offset=60",
    "learned:beyond=wrap,offset=100",
    "learned:beyond=interpolate,factor=3",
    "learned:beyond=resize,factor=2,offset=70",
    "learned:beyond=tile,random=400,seed=3",
    "sinusoidal:random=1000,seed=1",
    "sinusoidal:layout=concat,denominator=fairseq,offset=2",
    "sinusoidal:width=7,factor=2",
    "rope:pairs=adjacent,dim=6",
    "rope:p=0.5",
    "rope:offset=1000",
    "rope:random=400,offset=9",
    "rope:random=200,seed=7,scaling=dynamic,factor=2",
    "xpos:random=300,seed=2",
    "xpos:offset=100",
    "rope; layers 1::2 none",
    "rope:nope_every=2",
    "rope:base=500; layers 1 rope:base=50000",
    "none; layers 1 rope:scaling=dynamic,factor=2",
    "xpos; layers 0 t5",
    "sinusoidal; layers 1 alibi",
    "cope; layers 0 transformer-xl",
    "rope:scaling=linear,factor=3",
    "rope:scaling=ntk,factor=4",
    "rope:scaling=yarn,factor=4",
    "rope:scaling=llama3,factor=8",
    "rope:scaling=dynamic,factor=2",
    "rope:scaling=dynamic,factor=2,length=90",
    "rope:scaling=longrope,factor=4",
    "rope:scaling=longrope,factor=4,length=90",
    "alibi:max_bias=4,scaled=1,factor=2",
    "alibi:heads=1",
    "alibi:slopes=tensor",
    "kerple:kind=power",
    "sandwich:first=1",
    "transformer-xl:clamp=9",
    "cope:gate=raw",
    "fox:logn=position,temperature=1.5",
    "path:logn=position,temperature=1.5",
    "path; layers 1 fox",
    "dape:over=alibi,temperature=1.5",
    "dape:over=fire,logn=position",
    "rope; layers 1 dape",
    "none:logn=position",
    "rope:logn=position,temperature=0.8; layers 1 alibi:temperature=2",
    "rope:scaling=dynamic,factor=2,logn=position",
    "xpos:logn=position",
    "transformer-xl:logn=position,temperature=0.5",
    "cope:logn=position,temperature=1.5",
};

int spec_count(void)
{
    return (int)(locus_position_count() + sizeof variants / sizeof *variants);
}

const char *spec_at(int index)
{
    const int n_schemes = (int)locus_position_count();
    return index < n_schemes ? locus_position_at((size_t)index)->name : variants[index - n_schemes];
}
